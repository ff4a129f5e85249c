"""A stand-in of the Health Data and Lab Testing Service: own project, process and database."""
