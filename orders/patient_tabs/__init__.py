"""Parts of a patient's page that orders know: orders, results and what happened."""
