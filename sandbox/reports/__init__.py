"""Lab report parsing (errors-and-limits.md 7): `files` judges uploads, `findings` makes up what is
read out of them, `jobs` moves the jobs along."""
