"""Lab report parsing: documents uploaded here, the service's jobs, and what people make of them.

A `Report` is ours: a document of a patient, its way to the service, its acceptance. A `ReportJob`
is the service's record of reading it (errors and limits, chapter 7).

    examine.py   is this file a harmless PDF, JPEG or PNG? (a process of its own)
    storage.py   files outside the web root
    intake.py    an upload becomes a row and its files
    sending.py   the row goes to the service, once
    sync.py      the service's job becomes rows; hearing.py does it from webhook events
    review.py    corrections, ticks, acceptance, comparison with the patient
"""
