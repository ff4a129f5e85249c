"""Rules of the clinic about orders, apart from pages, commands and sync, which use them."""
