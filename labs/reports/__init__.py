"""Lab report parsing: uploaded documents, parsing jobs of the service, and their review.

A `Report` is a document of a patient that was uploaded here, with its delivery and acceptance. A
`ReportJob` is the service's record of parsing it (errors and limits, chapter 7).

    pdf_and_image_checks.py   checks that a file is a harmless PDF, JPEG or PNG, in its own process
    storage.py       stores files outside the web root
    intake.py        turns an upload into a row and its files
    delivery.py      sends the row to the service, once
    sync.py          stores the jobs of the service; handlers.py does it for webhook events
    review.py        corrections, checked rows, comparison with the patient
    acceptance.py    acceptance of a reviewed report
"""
