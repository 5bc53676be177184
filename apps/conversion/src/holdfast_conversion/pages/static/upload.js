// Conversions of files that are chosen or dropped, and of the sample.

import { NOT_TAKEN, refresh, say, takeUploads } from "/static/uploads.js";

const form = document.getElementById("upload");
const chosenMapping = () => new FormData(form).get("mapping");

// Returns why there is none, or nothing.
async function convertSample() {
  const body = new URLSearchParams({ mapping: chosenMapping() });
  const headers = { accept: "application/json" };
  try {
    const answer = await fetch("/sample", { method: "POST", body, headers });
    if (answer.ok) return "";
    const problem = await answer.json().catch(() => null);
    return problem?.error?.message ?? NOT_TAKEN;
  } catch {
    return "The connection was lost, so no sample was converted.";
  }
}

if (form) {
  takeUploads({
    url: "/api/upload",
    fields: () => ({ mapping: chosenMapping() }),
    jobOf: ({ job }) => job?.id,
    twinLine: "you have converted the same file before.",
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (event.submitter?.id !== "sample") return;
    const refusal = await convertSample();
    if (refusal) say(refusal, false);
    else refresh();
  });
}
