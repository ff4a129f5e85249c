"""Lists of records: filters in the address, saved views, chosen columns, downloads, bulk work."""
