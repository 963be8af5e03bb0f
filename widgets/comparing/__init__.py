"""Some runs side by side, drawn in a cell and on a page."""
