"""The data of the tutorials on handwritten digits: see `input_data`."""
