// Passkeys: the button of the page's form asks the browser for one. django-allauth's script does it;
// here is which form it is, and what to say when it did not work.
// Without scripts there are no passkeys, as the page says: the password and a code remain.

const form = document.querySelector("[data-passkey]");
const trouble = document.querySelector("[data-passkey-trouble]");
const DATA = { ids: { credential: "passkey-credential", data: "passkey-data" } };

document.addEventListener("allauth.error", (event) => {
  event.preventDefault();
  trouble.hidden = false;
  // Its attributes have a sentence for each error: `data-security-error` for SecurityError.
  const name = event.detail.exception?.name ?? "";
  const words = trouble.dataset[name.charAt(0).toLowerCase() + name.slice(1)];
  trouble.textContent = words ?? trouble.dataset.otherError;
});

if (form && window.PublicKeyCredential) {
  const { addForm, authenticateForm, loginForm } = window.allauth.webauthn.forms;
  const ids = DATA.ids;
  if (form.dataset.passkey === "add") addForm({ ids: { ...ids, add: "passkey-button", passwordless: "id_passwordless" } });
  else if (form.dataset.passkey === "login") loginForm({ ids: { ...ids, login: "passkey-button" } });
  else authenticateForm({ ids: { ...ids, authenticate: "passkey-button" } });
} else if (form) document.getElementById("passkey-button").disabled = true;
