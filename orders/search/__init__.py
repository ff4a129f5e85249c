"""One box that finds patients, orders, visits and samples."""
