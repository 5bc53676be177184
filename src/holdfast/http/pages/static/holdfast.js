// What the pages do beside showing what the server rendered: count down, listen to keys, pause,
// and ask for what changes where the stream of events does not open. Without it they are forms.

const POLL_MS = 5000;
const DUE_MS = 2000;
const SAID_MS = 7000;
const byId = (id) => document.getElementById(id);
const board = () => byId("board");
const live = byId("live");
const htmx = window.htmx;

document.documentElement.classList.add("scripted");

// -- saying ---------------------------------------------------------------------------------------

let silence;

// Both places are read out; what is shown is not to be read twice.
function say(text, shown = false) {
  byId(shown ? "toast" : "said").textContent = text;
  if (!shown) return;
  clearTimeout(silence);
  silence = setTimeout(() => (byId("toast").textContent = ""), SAID_MS);
}

document.addEventListener("holdfast:say", ({ detail: { text, aloud } }) => say(text, !aloud));

// -- time -----------------------------------------------------------------------------------------

// Seconds by which the server's clock is ahead of this machine's, updated with every answer.
let ahead = 0;
const serverNow = () => Date.now() / 1000 + ahead;

function syncClock() {
  const now = Number(board()?.dataset.now);
  if (now) ahead = now - Date.now() / 1000;
}

function countdown(seconds) {
  const left = Math.max(0, Math.ceil(seconds));
  if (left < 60) return `${left} s`;
  if (left < 3600) return `${Math.floor(left / 60)} min ${left % 60} s`;
  return `${Math.floor(left / 3600)} h ${Math.floor((left % 3600) / 60)} min`;
}

function rough(seconds) {
  const left = Math.max(0, Math.floor(seconds));
  if (left >= 172800) return `${Math.floor(left / 86400)} days`;
  if (left >= 3600) return `${Math.floor(left / 3600)} h`;
  return left >= 60 ? `${Math.floor(left / 60)} min` : `${left} s`;
}

function ago(seconds) {
  const passed = Math.max(0, seconds);
  if (passed < 60) return "just now";
  if (passed < 3600) return `${Math.floor(passed / 60)} min ago`;
  if (passed < 86400) return `${Math.floor(passed / 3600)} h ago`;
  const days = Math.floor(passed / 86400);
  return days === 1 ? "yesterday" : `${days} days ago`;
}

const write = (node, text) => node.textContent !== text && (node.textContent = text);

let askedAt = 0;

function tick() {
  let due = false;
  for (const node of document.querySelectorAll("time[data-until]")) {
    const left = Number(node.dataset.until) - serverNow();
    write(node, countdown(left));
    due ||= left < -0.5;
  }
  for (const node of document.querySelectorAll("time[data-ago]"))
    write(node, ago(serverNow() - Number(node.dataset.ago)));
  for (const node of document.querySelectorAll("time[data-since]"))
    write(node, countdown(serverNow() - Number(node.dataset.since)));
  for (const node of document.querySelectorAll("time[data-left]"))
    write(node, rough(Number(node.dataset.left) - serverNow()));
  // A job that becomes due may be held from then on, and the stream has no event for that.
  if (!due || Date.now() - askedAt < DUE_MS) return;
  askedAt = Date.now();
  refresh();
}

function localTimes() {
  const two = "2-digit";
  const how = { month: "short", day: "numeric", hour: two, minute: two, second: two };
  for (const node of document.querySelectorAll("time[data-local]"))
    write(node, new Date(node.dateTime).toLocaleString(undefined, how));
  for (const node of document.querySelectorAll("time[data-clock]"))
    write(node, new Date(node.dateTime).toLocaleTimeString(undefined, { hour: two, minute: two }));
}

// -- live -----------------------------------------------------------------------------------------

const WORDS = {
  starting: "Connecting",
  live: "Live",
  polling: "Checking",
  paused: "Paused",
};
let paused = false;
let connected = false;
let missed = 0;

function showLive() {
  const state = paused ? "paused" : connected ? "live" : htmx ? "polling" : "starting";
  const button = byId("pause");
  button.hidden = !htmx || !live.hasAttribute("hx-sse:connect");
  button.dataset.live = state;
  button.setAttribute("aria-pressed", String(paused));
  button.title = paused ? "Go on with live updates (r)" : "Pause live updates (r)";
  const changes = missed === 1 ? "1 change" : `${missed} changes`;
  write(byId("live-word"), paused && missed ? `Paused · ${changes}` : WORDS[state]);
}

function refresh() {
  const asks = htmx && !paused && !document.hidden && board()?.hasAttribute("hx-get");
  if (asks) htmx.trigger(board(), "refresh");
}

function pause(on) {
  paused = on;
  missed = 0;
  showLive();
  say(on ? "Live updates are paused." : "Live updates go on.");
  refresh();
}

function connection(now) {
  connected = now;
  showLive();
}

document.addEventListener("holdfast:refresh", () => {
  if (!htmx) location.reload();
  else if (paused) pause(false);
  else refresh();
});
window.addEventListener("pageshow", ({ persisted }) => persisted && refresh());
document.addEventListener("htmx:sse:after:connection", () => connection(true));
document.addEventListener("htmx:sse:close", () => connection(false));
document.addEventListener("htmx:sse:error", () => connection(false));
document.addEventListener("htmx:sse:before:message", (event) => {
  if (!paused) return;
  event.preventDefault();
  if (["job", "change"].includes(event.detail.message.event)) missed += 1;
  showLive();
});

// Going back changes the rows alone; uploads go on beside them.
document.addEventListener("htmx:before:history:restore", (event) => {
  event.preventDefault();
  htmx.ajax("GET", event.detail.path, { source: "main", target: "#board", swap: "outerMorph" });
});

// A server that is away is said in words, once it has not answered twice.
let unanswered = 0;

function answered(yes) {
  unanswered = yes ? 0 : unanswered + 1;
  byId("away").hidden = unanswered < 2;
}

document.addEventListener("htmx:after:request", ({ detail: { ctx } }) => answered(!!ctx.response));
document.addEventListener("htmx:error", ({ detail: { ctx } }) => ctx && !ctx.response && answered(false));

let beat = 0;

function poll() {
  if (!htmx || paused || document.hidden) return;
  beat += 1;
  // A stream may be dead without having ended, so even one that is open is not relied on. It has
  // the events of this session's jobs; a board that shows those of others too is asked for as often
  // as without a stream.
  if (connected && beat % 12 && board()?.dataset.shared === undefined) return;
  refresh();
  // The extension reconnects a stream that was open before, but not one that never was.
  if (!connected && !live._htmx?.sse && beat % 6 === 0) htmx.process(live, true);
}

// -- the user's actions come first ----------------------------------------------------------------

// A live update and a user's request (a filter, a button, going back) have queues of their own, so
// a click never waits for an update. The answer to an update is discarded if the user has acted
// since it was asked for, or presses a button at the moment: what is under the pointer would move.
// Such an update is owed, and asked for again afterwards.
const isUpdate = (ctx) => ctx.sourceElement === board();
const acting = new Set();
let update = null;
let pressed = false;
let owed = false;

function updateIfOwed() {
  if (!owed || acting.size || pressed) return;
  owed = false;
  refresh();
}

document.addEventListener("htmx:before:request", (event) => {
  const { ctx } = event.detail;
  if (!isUpdate(ctx)) {
    if (ctx.target !== board()) return;
    acting.add(ctx);
    owed ||= update !== null;
    update = null;
  } else if (acting.size) {
    event.preventDefault();
    owed = true;
  } else {
    update = ctx;
    // An update that had to wait for its turn asks for what is shown by then.
    ctx.request.action = board().getAttribute("hx-get");
  }
});

document.addEventListener("htmx:before:swap", (event) => {
  const { ctx } = event.detail;
  if (!isUpdate(ctx) || (update === ctx && !pressed)) return;
  event.preventDefault();
  owed = true;
});

document.addEventListener("htmx:finally:request", ({ detail: { ctx } }) => {
  if (update === ctx) update = null;
  if (acting.delete(ctx)) updateIfOwed();
});

document.addEventListener("pointerdown", ({ button, isPrimary }) => {
  pressed ||= button === 0 && isPrimary;
});
for (const [target, name] of [[document, "pointerup"], [document, "pointercancel"], [window, "blur"]])
  target.addEventListener(name, () => {
    pressed = false;
    // The click comes after the release.
    setTimeout(updateIfOwed);
  });

// -- what a swap leaves behind --------------------------------------------------------------------

const looks = new Map();

function noteLooks(aloud) {
  const changes = [];
  for (const row of document.querySelectorAll("#board .row[data-look][id]")) {
    const { look } = row.dataset;
    if (looks.get(row.id) === look) continue;
    looks.set(row.id, look);
    if (["done", "failed", "held"].includes(look))
      changes.push(`${row.querySelector("bdi").textContent}: ${row.querySelector(".status").textContent}`);
  }
  if (!aloud || !changes.length) return;
  const more = changes.length > 3 ? `, and ${changes.length - 3} more` : "";
  say(changes.slice(0, 3).join(", ") + more);
}

// Where the keyboard is: in which row, and in which place that row stands.
let here = null;

document.addEventListener("htmx:before:swap", () => {
  const row = document.activeElement?.closest?.("#board .row");
  here = row && { id: row.id, place: rowLinks().indexOf(row.querySelector("a.row-name")) };
});

document.addEventListener("htmx:after:swap", () => {
  syncClock();
  localTimes();
  tick();
  noteLooks(true);
  // A button that is gone would leave the keyboard at the top of the page.
  if (here && document.activeElement === document.body) {
    const links = rowLinks();
    const same = byId(here.id)?.querySelector("a.row-name");
    (same ?? links[Math.min(here.place, links.length - 1)] ?? board())?.focus({ preventScroll: true });
  }
  here = null;
});

// -- keys -----------------------------------------------------------------------------------------

const rowLinks = () => [...document.querySelectorAll("#rows a.row-name")];

function move(step) {
  const links = rowLinks();
  const row = document.activeElement?.closest?.(".row, #rows > *");
  const at = links.indexOf(row?.querySelector("a.row-name"));
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step];
  next?.focus();
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  x: () => document.activeElement?.closest?.(".row, #rows > *")?.querySelector(".pick")?.click(),
  "/": () => (byId("finder-text") ?? document.querySelector(".filter [aria-current]"))?.focus(),
  u: () => byId("file")?.click(),
  r: () => byId("pause").hidden || pause(!paused),
  "?": () => byId("help").showModal(),
};

const TYPED = "input:not([type=radio], [type=checkbox], [type=file]), textarea, select, [contenteditable]";
const keysOn = byId("keys-on");
keysOn.checked = localStorage.getItem("holdfast-keys") !== "off";
keysOn.addEventListener("change", () =>
  localStorage.setItem("holdfast-keys", keysOn.checked ? "on" : "off"),
);

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.(TYPED);
  const meant = !event.ctrlKey && !event.metaKey && !event.altKey && !event.isComposing;
  if (!meant || typing || document.querySelector("dialog[open]") || !keysOn.checked) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

// -- theme ----------------------------------------------------------------------------------------

const THEMES = ["auto", "light", "dark"];

function showTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme-button").value = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  byId("theme-button").title = `Theme: ${theme}`;
  write(byId("theme-word"), theme);
}

byId("theme-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const theme = byId("theme-button").value;
  document.cookie = `holdfast_theme=${theme}; path=/; max-age=31536000; samesite=lax`;
  showTheme(theme);
  say(`Theme: ${theme}`, true);
});

// -- start ----------------------------------------------------------------------------------------

byId("help-button").hidden = false;
byId("help-button").addEventListener("click", () => byId("help").showModal());
byId("help").addEventListener("click", (event) => {
  if (event.target === byId("help")) byId("help").close();
});
byId("pause").addEventListener("click", () => pause(!paused));
showTheme(document.documentElement.dataset.theme);
if (byId("toast").textContent) {
  say(byId("toast").textContent, true);
  // A note is shown once, not again when the page is restored.
  const url = new URL(location.href);
  url.searchParams.delete("note");
  history.replaceState(history.state, "", url);
}
syncClock();
localTimes();
noteLooks(false);
showLive();
requestAnimationFrame(() => document.documentElement.classList.add("settled"));
setInterval(tick, 500);
setInterval(poll, POLL_MS);
