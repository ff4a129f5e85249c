"""Lab report parsing (errors-and-limits.md 7): `files` checks uploads, `parsed_data` makes up their
contents, `jobs` moves the parsing jobs."""
