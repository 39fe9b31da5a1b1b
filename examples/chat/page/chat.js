"use strict";

// A room's messages are numbered from 1. When this page connects, it sends the number of the
// last message that it has seen, and the server continues after it. So messages that were missed
// during an outage arrive afterwards, and none arrives twice. A message that is written here waits
// until it comes back with a number. If the connection breaks before that, the page sends it again
// on the next one; the server recognises it by its id.

const $ = id => document.getElementById(id);
const door = $("door"), chat = $("chat"), log = $("log"), enter = $("enter"), write = $("write");

let me = "", room = "";
let socket = null;       // the current connection; events of older ones are ignored
let history = "";        // the id of the history that the numbers belong to
let seen = 0;            // the number of the last message shown
let waiting = new Map(); // id → element of a message that the server has not numbered yet
let tries = 0;           // failed attempts since the last connection that worked
let retry = 0;           // the timer for the next attempt
let last = null;         // sender and time of the previous message

const firstPause = 250, longestPause = 5000; // milliseconds
const groupTime = 5 * 60 * 1000;

function connect() {
  clearTimeout(retry);
  retry = 0;
  const url = new URL("socket", location.href);
  url.protocol = url.protocol.replace("http", "ws");
  url.search = new URLSearchParams({room, name: me, history, seen});
  const s = socket = new WebSocket(url);
  status("connecting", "off");
  s.onmessage = m => { if (s === socket) take(JSON.parse(m.data)); };
  s.onclose = () => { if (s === socket) lost(); };
}

// lost schedules a reconnect: soon at first, then with exponential backoff and jitter, so that
// clients do not all reconnect at the same time.
function lost() {
  socket = null;
  const pause = Math.min(longestPause, firstPause * 2 ** tries++) * (0.5 + Math.random() / 2);
  status("reconnecting", "off");
  retry = setTimeout(connect, pause);
}

function take(event) {
  switch (event.kind) {
  case "hello":
    tries = 0;
    status("online", "on");
    if (history && history !== event.history) {
      seen = 0;
      note("The server has begun a new history.");
    }
    if (seen + 1 < event.first) {
      note("Earlier messages are not kept.");
      seen = event.first - 1;
    }
    history = event.history;
    for (const [id, li] of waiting) send(id, li.message.text);
    break;
  case "people":
    people(event.people);
    break;
  case "message":
    settle(event.id);
    if (event.number <= seen) break;
    if (event.number > seen + 1) { // should not happen; if it does, reconnect to get the missing messages
      socket.close();
      break;
    }
    seen = event.number;
    show(event);
    break;
  case "refused":
    settle(event.id);
    note(event.text);
    break;
  }
}

// settle removes a waiting message: it has arrived with its number, or was refused.
function settle(id) {
  waiting.get(id)?.remove();
  waiting.delete(id);
}

function send(id, text) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({id, text}));
}

function show(message) {
  const li = bubble(message, message.name === me);
  li.dataset.number = message.number;
  const first = !last || last.name !== message.name || message.at - last.at > groupTime;
  li.classList.toggle("first", first);
  last = message;
  place(li, message.name === me);
}

// bubble creates a message's element.
function bubble(message, own) {
  const li = document.createElement("li");
  li.message = message;
  li.classList.toggle("own", own);
  const who = document.createElement("div"), name = document.createElement("b"), at = document.createElement("time");
  who.className = "who";
  who.style.setProperty("--hue", hue(message.name));
  name.textContent = message.name;
  const when = new Date(message.at);
  at.dateTime = when.toISOString();
  at.textContent = when.toLocaleTimeString([], {hour: "2-digit", minute: "2-digit"});
  who.append(name, at);
  const text = document.createElement("div");
  text.className = "text";
  text.textContent = message.text;
  li.append(who, text);
  return li;
}

function note(text) {
  const li = document.createElement("li");
  li.className = "note";
  li.textContent = text;
  last = null;
  place(li, false);
}

// place inserts an element above the waiting messages. If the reader is at the end, it scrolls
// down; otherwise it shows the button "New messages".
function place(li, follow) {
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
  const [above] = waiting.values();
  log.insertBefore(li, above ?? null);
  if (atEnd || follow) log.scrollTop = log.scrollHeight;
  else $("newer").hidden = false;
}

// hue returns a colour for each name.
function hue(name) {
  let sum = 0;
  for (const c of name) sum = (sum * 31 + c.codePointAt(0)) % 360;
  return sum;
}

function people(names) {
  const text = names.length === 1 ? "only you" : `${names.length} people: ${names.join(", ")}`;
  $("people").textContent = $("people").title = text;
}

function status(text, state) {
  $("status").textContent = text;
  $("status").dataset.state = state;
}

enter.onsubmit = event => {
  event.preventDefault();
  me = enter.elements.name.value.trim();
  room = enter.elements.room.value.trim();
  if (!me || !room) return;
  remember({name: me, room});
  join();
};

function join() {
  [history, seen, last, tries] = ["", 0, null, 0];
  waiting.clear();
  log.replaceChildren();
  $("newer").hidden = true;
  $("room").textContent = room;
  $("people").textContent = "";
  document.title = `#${room}`;
  door.hidden = true;
  chat.hidden = false;
  write.elements.text.focus();
  connect();
}

$("leave").onclick = () => {
  const s = socket;
  socket = null;
  s?.close();
  clearTimeout(retry);
  retry = 0;
  remember(null);
  chat.hidden = true;
  door.hidden = false;
  document.title = "Chat";
  rooms();
};

write.onsubmit = event => {
  event.preventDefault();
  const box = write.elements.text, text = box.value.trim();
  if (!text) return;
  box.value = "";
  grow();
  const id = Array.from(crypto.getRandomValues(new Uint8Array(12)), b => b.toString(16).padStart(2, "0")).join("");
  const li = bubble({name: me, text, at: Date.now()}, true);
  li.classList.add("waiting");
  log.append(li);
  log.scrollTop = log.scrollHeight;
  waiting.set(id, li);
  send(id, text);
};

write.elements.text.onkeydown = event => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    write.requestSubmit();
  }
};
write.elements.text.oninput = grow;

// grow fits the box to the height of its text.
function grow() {
  const box = write.elements.text;
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight + 2}px`;
}

$("newer").onclick = () => { log.scrollTop = log.scrollHeight; };
log.onscroll = () => {
  if (log.scrollHeight - log.scrollTop - log.clientHeight < 60) $("newer").hidden = true;
};

// After waking up or finding a network, reconnect at once instead of waiting for the timer.
addEventListener("online", () => { if (retry) connect(); });

// remember stores name and room for a reload of this tab.
function remember(what) {
  if (what) sessionStorage.setItem("chat", JSON.stringify(what));
  else sessionStorage.removeItem("chat");
}

// rooms lists the existing rooms as suggestions.
async function rooms() {
  const answer = await fetch("rooms");
  const names = answer.ok ? await answer.json() : [];
  $("rooms").replaceChildren(...names.map(name => new Option(name)));
}

const before = JSON.parse(sessionStorage.getItem("chat") ?? "null");
if (before) {
  ({name: me, room} = before);
  [enter.elements.name.value, enter.elements.room.value] = [me, room];
  join();
} else {
  rooms();
  enter.elements.name.focus();
}
