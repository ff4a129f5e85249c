"""The tabs of a patient's page that show orders, results and activity."""
