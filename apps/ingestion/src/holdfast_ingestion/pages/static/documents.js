// Uploads of files with progress, and a form that is empty again once what it had is taken in.
// Without this module the form posts one file and reloads the page.

import { takeUploads } from "/static/uploads.js";

const form = document.getElementById("upload");
const file = document.getElementById("file");
const kindOf = () => new FormData(form).get("kind");

// Labels are lines of `key: value`; the API wants them as JSON.
function labels() {
  const lines = document.getElementById("labels").value.split("\n");
  const pairs = lines.filter((line) => line.includes(":")).map((line) => {
    const [key, ...value] = line.split(":");
    return [key.trim(), value.join(":").trim()];
  });
  return JSON.stringify(Object.fromEntries(pairs));
}

takeUploads({
  url: "/v3/documents",
  fields: () => ({ metadata: labels() }),
  jobOf: ({ id }) => id && `doc-${id}`,
  twinLine: "the same is there already.",
});

// Chosen files are uploaded at once, so the button is for addresses and texts alone.
form.addEventListener("htmx:config:request", (event) => {
  if (kindOf() !== "file") return;
  event.preventDefault();
  file.click();
});

document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => {
  if (ctx.sourceElement !== form || !ctx.response?.raw.ok) return;
  const kind = kindOf();
  form.reset();
  form.querySelector(`[value=${kind}]`).checked = true;
});

document.addEventListener("drop", () => {
  form.querySelector("[value=file]").checked = true;
});
