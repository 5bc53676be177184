// What the dashboard adds to holdfast.js: the question before a form is sent, and selected rows.
// Without it the question is a page, and the boxes are a form.

const byId = (id) => document.getElementById(id);
const dialog = byId("confirm");
let asked = null;

// On a phone the pages are a row that scrolls: show the one that is open.
document.querySelector(".apps [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// -- asking first ---------------------------------------------------------------------------------

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset?.ask) return;
  event.preventDefault();
  // The form itself may be gone by the time of the answer: a live update replaces what it shows.
  asked = { action: form.action, fields: [...new FormData(form)] };
  byId("confirm-title").textContent = form.dataset.ask;
  byId("confirm-names").replaceChildren();
  byId("confirm-words").textContent = form.dataset.words;
  byId("confirm-yes").textContent = form.dataset.yes;
  byId("confirm-no").textContent = "Go back";
  dialog.returnValue = "";
  dialog.showModal();
});

dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
dialog.addEventListener("close", () => {
  if (dialog.returnValue !== "yes" || !asked) return;
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: asked.action, hidden: true });
  for (const [name, value] of [...asked.fields, ["confirmed", "1"]]) {
    const field = document.createElement("input");
    Object.assign(field, { type: "hidden", name, value });
    form.append(field);
  }
  document.body.append(form);
  form.submit();
});

// -- selected rows --------------------------------------------------------------------------------

// Rows come and go with live updates; a row that comes back is still selected.
const picked = new Set();
const boxes = () => [...document.querySelectorAll("#rows .pick")];

function show() {
  const all = byId("pick-all");
  if (!all) return;
  for (const box of boxes()) box.checked = picked.has(box.value);
  const chosen = boxes().filter((box) => box.checked).length;
  all.checked = chosen > 0 && chosen === boxes().length;
  all.indeterminate = chosen > 0 && !all.checked;
  byId("picked").textContent = chosen ? `${chosen} selected` : "Select all on this page";
}

document.addEventListener("change", ({ target }) => {
  const changed = target.id === "pick-all" ? boxes() : target.matches?.(".pick") ? [target] : [];
  for (const box of changed) target.checked ? picked.add(box.value) : picked.delete(box.value);
  if (changed.length) show();
});
document.addEventListener("htmx:after:swap", show);
show();
