"""Some runs side by side: what is drawn of them, in a cell and on a page."""
