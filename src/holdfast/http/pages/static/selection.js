// Selected rows: how many the buttons mean, and the question before anything is removed. Without it
// the boxes and buttons are a form, and the question is a page.

const byId = (id) => document.getElementById(id);
const htmx = window.htmx;
const boxes = () => [...document.querySelectorAll("#rows .pick")];
// Rows come and go with live updates and filters; a row that comes back is still selected.
const picked = new Set();
let every = false;

const write = (node, text) => node && node.textContent !== text && (node.textContent = text);
// The server counts only so many; then there may be more.
const count = (number) => {
  const { one, several, more } = byId("pick-all").dataset;
  return `${number}${every ? more : ""} ${number === 1 ? one : several}`;
};

function show() {
  const all = byId("pick-all");
  if (!all) return;
  for (const box of boxes()) box.checked = every || picked.has(box.value);
  const chosen = boxes().filter((box) => box.checked);
  all.checked = every;
  all.indeterminate = !every && chosen.length > 0;
  const number = every ? Number(all.dataset.matching) : chosen.length;
  write(byId("picked"), number ? `${count(number)} selected` : all.dataset.label);
  for (const [id, word, what] of [["bulk-download", "Download", "ready"], ["bulk-retry", "Retry", "failed"]]) {
    const button = byId(id);
    if (!button) continue;
    const able = every
      ? Number(all.dataset[what])
      : chosen.filter((box) => what in box.closest(".row").dataset).length;
    button.disabled = number > 0 && able === 0;
    write(button.querySelector(".for-picked"), `${word} ${able}`);
  }
  write(byId("bulk-remove"), `Remove ${number}`);
}

function clear() {
  every = false;
  picked.clear();
  show();
}

document.addEventListener("change", ({ target }) => {
  if (target.id === "pick-all") {
    every = target.checked;
    picked.clear();
  } else if (target.matches?.(".pick")) {
    // One box less than all: those in sight stay selected.
    if (every) for (const box of boxes()) picked.add(box.value);
    every = false;
    if (target.checked) picked.add(target.value);
    else picked.delete(target.value);
  } else return;
  show();
});
document.addEventListener("htmx:after:swap", show);

// -- removing -------------------------------------------------------------------------------------

const SHOWN = 5;
let confirmed;

// `names` may be a part of all that go; `active` of them are not finished.
function ask(title, names, number, active, then) {
  confirmed = then;
  byId("confirm-title").textContent = title;
  const more = number > SHOWN ? [`and ${number - SHOWN} more`] : [];
  byId("confirm-names").replaceChildren(
    ...[...names.slice(0, SHOWN), ...more].map((name) => {
      const line = document.createElement("li");
      line.textContent = name;
      return line;
    }),
  );
  const stopped = active ? ` ${active} ${active === 1 ? "is" : "are"} still in progress and cancelled first.` : "";
  byId("confirm-words").textContent = `${byId("board").dataset.removal} This cannot be undone.${stopped}`;
  byId("confirm").returnValue = "";
  byId("confirm").showModal();
}

byId("confirm").addEventListener("close", () => byId("confirm").returnValue === "yes" && confirmed());
byId("confirm").addEventListener("click", ({ target }) => target === byId("confirm") && target.close());

const post = (path, source, values) =>
  htmx.ajax("POST", path, { source, target: "#board", swap: "outerMorph", values });

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a.do-remove");
  const button = event.target.closest?.("#bulk-remove");
  if (!htmx || !(link || button) || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  if (button) {
    const rows = boxes().filter((box) => box.checked).map((box) => box.closest(".row"));
    const names = rows.map((row) => row.querySelector("bdi").textContent);
    const all = byId("pick-all").dataset;
    const number = every ? Number(all.matching) : rows.length;
    const active = every
      ? Number(all.active)
      : rows.filter((row) => "active" in row.dataset).length;
    ask(`Remove ${count(number)}?`, names, number, active, () => {
      post("/bulk/remove", byId("bulk"), { confirmed: "1" }).then(clear);
    });
  } else {
    const row = link.closest(".row");
    ask("Remove this?", [link.dataset.name], 1, "active" in row.dataset ? 1 : 0, () => {
      const at = new URL(link.href);
      // The job's own page is gone with it.
      if (!byId("rows")) return leave(at.pathname);
      picked.delete(row.querySelector(".pick").value);
      const view = new URL(byId("board").getAttribute("hx-get"), location.href).searchParams;
      post(at.pathname, "main", { ...Object.fromEntries(view), confirmed: "1" });
    });
  }
});

function leave(path) {
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: path });
  document.body.append(form);
  form.submit();
}

show();
