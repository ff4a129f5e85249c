"""A stand-in for the Health Data and Lab Testing Service: its own project, process and database."""
