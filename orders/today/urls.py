"""URLs of Today."""

from django.urls import path

from orders.today import views

app_name = "today"

urlpatterns = [
    path("", views.page, name="page"),
    path("counts/", views.counts, name="counts"),
    path("hand-over/", views.hand_over, name="hand-over"),
    path("seen/", views.mark_seen, name="seen"),
    path("seen/all/", views.mark_all_seen, name="seen-all"),
]
