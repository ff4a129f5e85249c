"""WSGI entry of the sandbox (`sandbox.wsgi:application`)."""

import multiprocessing
import os
import threading
from multiprocessing.process import BaseProcess

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "sandbox.settings")


def _end_with(parent: BaseProcess) -> None:
    """Exit with the parent process, so that a killed sandbox leaves no worker on its port."""
    parent.join()
    os._exit(1)


if parent := multiprocessing.parent_process():
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()

application = get_wsgi_application()
