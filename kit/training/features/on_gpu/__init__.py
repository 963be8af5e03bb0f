"""Workers that compute on GPUs: `kit.train(..., device="gpu")`."""
