// Uploads with a progress bar. Without this module the form posts one file and reloads the page.

const AT_ONCE = 3;
const NOT_TAKEN = "The server could not take it in.";
const form = document.getElementById("upload");
const input = document.getElementById("file");
const template = document.getElementById("upload-item");
let waiting = [];
const handedOver = new Set();
let running = 0;

const say = (text, aloud = true) =>
  document.dispatchEvent(new CustomEvent("holdfast:say", { detail: { text, aloud } }));
const refresh = () => document.dispatchEvent(new CustomEvent("holdfast:refresh"));
// The board, and with it this list, is put in its place by the server's answers; ask each time.
const list = () => document.getElementById("uploads");
const chosenMapping = () => new FormData(form).get("mapping");

function sizeOf(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  const [value, unit] = bytes < 1048576 ? [bytes / 1024, "kB"] : [bytes / 1048576, "MB"];
  return `${value >= 99.95 ? Math.round(value) : Number(value.toPrecision(value >= 10 ? 3 : 2))} ${unit}`;
}

class Upload {
  constructor(file, mapping) {
    this.file = file;
    this.mapping = mapping;
    this.announced = 0;
    this.row = template.content.firstElementChild.cloneNode(true);
    this.row.querySelector("bdi").textContent = file.name;
    this.row.querySelector("[data-fact=mapping]").textContent = mapping;
    this.row.querySelector("[data-fact=size]").textContent = sizeOf(file.size);
    this.row.querySelector("progress").setAttribute("aria-label", `Upload of ${file.name}`);
    this.row.addEventListener("click", (event) => this.clicked(event.target.dataset.do));
    list().prepend(this.row);
    this.show("waiting", "Waiting to upload");
  }

  show(phase, words, why = "") {
    this.row.dataset.phase = phase;
    this.row.dataset.look = phase === "refused" ? "failed" : "running";
    this.row.querySelector(".status").textContent = words;
    this.row.querySelector(".row-why").textContent = why;
    this.row.querySelector("[data-do=again]").hidden = phase !== "refused" || this.final;
    this.row.querySelector("[data-do=cancel]").textContent =
      phase === "uploading" || phase === "waiting" ? "Cancel" : "Dismiss";
  }

  clicked(what) {
    if (what === "again") {
      this.show("waiting", "Waiting to upload");
      enqueue(this);
    } else if (what === "cancel") {
      const was = this.row.dataset.phase;
      waiting = waiting.filter((upload) => upload !== this);
      this.request?.abort();
      this.row.remove();
      if (was !== "refused") say(`Upload of ${this.file.name} cancelled.`);
      input.focus();
    }
  }

  refuse(why, final = false) {
    this.final = final;
    this.show("refused", "Not uploaded", why);
    say(`${this.file.name}: ${why}`, true);
  }

  start() {
    const body = new FormData();
    body.append("mapping", this.mapping);
    body.append("file", this.file);
    const request = (this.request = new XMLHttpRequest());
    request.upload.onprogress = (event) => this.progressed(event);
    request.onload = () => this.answered(request);
    request.onerror = () => this.refuse("The connection was lost, so it was not uploaded.");
    request.onloadend = finished;
    request.open("POST", "/api/upload");
    request.responseType = "json";
    this.announced = 0;
    this.show("uploading", "Uploading 0 %");
    request.send(body);
  }

  progressed({ loaded, total }) {
    const share = total ? Math.floor((loaded / total) * 100) : 0;
    this.row.querySelector("progress").value = share;
    this.row.querySelector(".status").textContent =
      share < 100 ? `Uploading ${share} %` : "Storing";
    const step = Math.floor(share / 25) * 25;
    if (step > this.announced) {
      this.announced = step;
      say(`${this.file.name}: ${step} % uploaded`);
    }
  }

  answered({ status, response }) {
    if (status === 429) {
      this.show("waiting", "Waiting to upload", "Many at once: going on in a moment.");
      const seconds = Number(this.request.getResponseHeader("retry-after")) || 5;
      setTimeout(() => this.row.isConnected && enqueue(this), seconds * 1000);
    } else if (response?.job) {
      this.handOver(response);
    } else {
      this.refuse(response?.error?.message ?? NOT_TAKEN);
    }
  }

  // From here on the server's row speaks for the file; ours goes when that one is there.
  handOver({ job, deduplicated, error }) {
    this.job = job.id;
    // A filter may leave that row out of the list.
    const hidden = /[?&](status|cursor)=/.test(location.search);
    this.show("stored", error ? "Failed" : "Queued", hidden ? "Not in the list that is shown." : "");
    if (deduplicated) say(`${this.file.name}: you have converted the same file before.`, false);
    if (error) say(`${this.file.name}: ${error.message}`);
    handedOver.add(this);
    if (window.htmx) refresh();
  }

  settle() {
    if (!document.getElementById(`job-${this.job}`)) return;
    this.row.remove();
    handedOver.delete(this);
  }
}

function enqueue(upload) {
  waiting.push(upload);
  pump();
}

function pump() {
  while (running < AT_ONCE && waiting.length) {
    running += 1;
    waiting.shift().start();
  }
}

function finished() {
  running -= 1;
  pump();
  // Without htmx the rows are part of the page, which is reloaded when no upload is running.
  if (!window.htmx && !running && handedOver.size) refresh();
}

function take(files) {
  const mapping = chosenMapping();
  const most = Number(form.dataset.mostBytes);
  for (const file of files) {
    const upload = new Upload(file, mapping);
    // Refuse a file that is too large before it is sent.
    if (file.size > most) upload.refuse(form.dataset.tooLarge, true);
    else enqueue(upload);
  }
}

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

const isFiles = (event) => event.dataTransfer?.types.includes("Files");
const dragging = (on) => document.documentElement.classList.toggle("dragging", on);

if (form) {
  document.documentElement.classList.add("scripted");
  input.multiple = true;
  input.required = false;
  input.addEventListener("change", () => {
    take(input.files);
    input.value = "";
  });
  document.addEventListener("dragover", (event) => {
    if (!isFiles(event)) return;
    event.preventDefault();
    dragging(true);
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) dragging(false);
  });
  document.addEventListener("drop", (event) => {
    if (!isFiles(event)) return;
    event.preventDefault();
    dragging(false);
    take(event.dataTransfer.files);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (event.submitter?.id !== "sample") return;
    const refusal = await convertSample();
    if (refusal) say(refusal, false);
    else refresh();
  });
  document.addEventListener("htmx:after:swap", () => handedOver.forEach((upload) => upload.settle()));
  window.addEventListener("beforeunload", (event) => {
    if (running || waiting.length) event.preventDefault();
  });
}
