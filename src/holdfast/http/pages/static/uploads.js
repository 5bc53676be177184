// Uploads with a progress bar, for the modules of apps: `takeUploads` is given what differs. Without
// it a form posts one file and reloads the page.

const AT_ONCE = 3;
const FILTERED = /[?&](status|cursor|q|metadata)=[^&]/;
export const NOT_TAKEN = "The server could not take it in.";
const form = document.getElementById("upload");
const input = document.getElementById("file");
const template = document.getElementById("upload-item");
let app;
let waiting = [];
const handedOver = new Set();
let running = 0;
let batch = null;

export const say = (text, aloud = true) =>
  document.dispatchEvent(new CustomEvent("holdfast:say", { detail: { text, aloud } }));
export const refresh = () => document.dispatchEvent(new CustomEvent("holdfast:refresh"));
// The board, and with it this list, is put in its place by the server's answers; ask each time.
const list = () => document.getElementById("uploads");

function sizeOf(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  const [value, unit] = bytes < 1048576 ? [bytes / 1024, "kB"] : [bytes / 1048576, "MB"];
  return `${value >= 99.95 ? Math.round(value) : Number(value.toPrecision(value >= 10 ? 3 : 2))} ${unit}`;
}

class Upload {
  constructor(file, fields) {
    this.file = file;
    this.fields = fields;
    this.announced = 0;
    this.row = template.content.firstElementChild.cloneNode(true);
    this.row.querySelector("bdi").textContent = file.name;
    const facts = { ...fields, size: sizeOf(file.size) };
    for (const node of this.row.querySelectorAll("[data-fact]"))
      node.textContent = facts[node.dataset.fact];
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
      this.gone = true;
      batch.show();
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
    for (const [name, value] of Object.entries(this.fields)) body.append(name, value);
    body.append("file", this.file);
    const request = (this.request = new XMLHttpRequest());
    request.upload.onprogress = (event) => this.progressed(event);
    request.onload = () => this.answered(request);
    request.onerror = () => this.refuse("The connection was lost, so it was not uploaded.");
    request.onloadend = finished;
    request.open("POST", app.url);
    request.responseType = "json";
    this.announced = 0;
    this.sent = 0;
    this.show("uploading", "Uploading 0 %");
    request.send(body);
  }

  progressed({ loaded, total }) {
    const share = total ? Math.floor((loaded / total) * 100) : 0;
    this.sent = total ? (loaded / total) * this.file.size : 0;
    batch?.show();
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
    } else if (app.jobOf(response ?? {})) {
      this.handOver(response);
    } else {
      this.refuse(response?.error?.message ?? NOT_TAKEN);
    }
  }

  // From here on the server's row speaks for the file; ours goes when that one is there.
  handOver(response) {
    const { deduplicated, error } = response;
    this.job = app.jobOf(response);
    // A filter may leave that row out of the list.
    const hidden = FILTERED.test(location.search);
    this.show("stored", error ? "Failed" : "Queued", hidden ? "Not in the list that is shown." : "");
    if (deduplicated) say(`${this.file.name}: ${app.twinLine}`, false);
    if (error) say(`${this.file.name}: ${error.message}`);
    handedOver.add(this);
    if (window.htmx) refresh();
  }

  settle() {
    this.swaps = (this.swaps ?? 0) + 1;
    // The second answer was asked for after the upload: a row that is not in it is on a later page.
    const later = this.swaps > 1 && !FILTERED.test(location.search);
    if (!later && !document.getElementById(`job-${this.job}`)) return;
    this.row.remove();
    handedOver.delete(this);
  }
}

// How far all files are that were chosen together, by their bytes. One alone has its row.
class Batch {
  constructor() {
    this.uploads = [];
    this.line = document.createElement("li");
    this.line.className = "upload-total";
    const words = document.createElement("p");
    const bar = Object.assign(document.createElement("progress"), { max: 1 });
    bar.setAttribute("aria-label", "Upload of all files");
    const stop = Object.assign(document.createElement("button"), { type: "button", className: "button" });
    stop.textContent = "Cancel what is not sent";
    stop.addEventListener("click", () => this.left().forEach((upload) => upload.clicked("cancel")));
    this.line.append(words, bar, stop);
  }

  all() {
    return this.uploads.filter((upload) => upload.row.dataset.phase !== "refused" && !upload.gone);
  }

  left() {
    return this.all().filter((upload) => ["waiting", "uploading"].includes(upload.row.dataset.phase));
  }

  show() {
    const [all, left] = [this.all(), this.left()];
    if (all.length < 2 || !left.length) return this.line.remove();
    if (!this.line.isConnected) list().prepend(this.line);
    const bytes = all.reduce((sum, upload) => sum + upload.file.size, 0);
    const rest = left.reduce((sum, upload) => sum + upload.file.size - (upload.sent ?? 0), 0);
    const share = bytes ? 1 - rest / bytes : 0;
    const done = all.length - left.length;
    const [words, bar] = this.line.children;
    words.textContent = `Uploading ${all.length} files · ${done} sent · ${Math.floor(share * 100)} %`;
    bar.value = share;
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
  batch.show();
  // Without htmx the rows are part of the page, which is reloaded when no upload is running.
  if (!window.htmx && !running && handedOver.size) refresh();
}

function take(files) {
  const fields = app.fields();
  const most = Number(form.dataset.mostBytes);
  if (!running && !waiting.length) batch = new Batch();
  for (const file of files) {
    const upload = new Upload(file, fields);
    batch.uploads.push(upload);
    // Refuse a file that is too large before it is sent.
    if (file.size > most) upload.refuse(form.dataset.tooLarge, true);
    else enqueue(upload);
  }
  batch.show();
}

const isFiles = (event) => event.dataTransfer?.types.includes("Files");
const dragging = (on) => document.documentElement.classList.toggle("dragging", on);

// Uploads files that are chosen in the page's form or dropped on the page. `how` has
// - url: where each is posted;
// - fields(): what is posted beside it, also shown as the row's facts;
// - jobOf(answer): the id of its job in the server's answer, if it was taken in;
// - twinLine: what is said where the same file is there already.
export function takeUploads(how) {
  app = how;
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
  document.addEventListener("htmx:after:swap", () => handedOver.forEach((upload) => upload.settle()));
  window.addEventListener("beforeunload", (event) => {
    if (running || waiting.length) event.preventDefault();
  });
}
