"""`python -m tests.team.mailer`: a worker that sends due mail once."""

import django


def main() -> None:
    django.setup()
    from backoffice.team.emails import send_due

    send_due()


if __name__ == "__main__":
    main()
