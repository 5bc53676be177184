// A form that is empty again once what it had is handed in. Without this module the page is reloaded.

const form = document.getElementById("submit");

document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
  if (ctx.sourceElement !== form || !ctx.response?.raw.ok) return;
  const skill = new FormData(form).get("skill");
  form.reset();
  const chosen = form.querySelector(`[type=radio][value=${skill}]`);
  if (chosen) chosen.checked = true;
});
