"""The search box for patients, orders, visits and samples."""
