"use strict";
// Reads the page and moves about in it. Never makes HTML out of text, never asks for anything outside the file.
(() => {
  const root = document.documentElement;
  const THEMES = ["auto", "light", "dark"];
  root.classList.add("js");

  const kept = (value) => {
    try { // a page opened from a file may have no storage
      if (value) localStorage.setItem("aj-theme", value);
      return localStorage.getItem("aj-theme");
    } catch { return value; }
  };
  // Before the first paint, so that a page never flashes in the other theme.
  if (THEMES.includes(kept())) root.dataset.theme = kept();

  const byId = (id) => document.getElementById(id);
  const when = (id, event, act) => byId(id)?.addEventListener(event, act);
  const later = (act, ms) => { let timer; return () => { clearTimeout(timer); timer = setTimeout(act, ms); }; };

  function themes() {
    const button = byId("theme");
    const name = () => { button.textContent = { auto: "Auto", light: "Light", dark: "Dark" }[root.dataset.theme]; };
    name();
    button.addEventListener("click", () => {
      root.dataset.theme = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
      kept(root.dataset.theme);
      name();
    });
  }

  function times() {
    const day = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
    const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
    let last = "";
    for (const time of document.querySelectorAll("time")) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      const [date, hour] = [day.format(at), clock.format(at)];
      const again = date === last && time.closest(".message");
      time.textContent = again ? hour : `${date}, ${hour}`;
      if (time.closest(".message")) last = date;
    }
  }

  // --- a session ---

  const BAR = 64; // pixels under the bar at the top
  let messages = [];
  let here = -1;
  const shown = () => (document.body.classList.contains("only") ? messages.filter((m) => m.classList.contains("hit")) : messages);
  const inView = (element) => { const box = element.getBoundingClientRect(); return box.bottom > BAR && box.top < innerHeight; };

  function goTo(message) {
    messages[here]?.classList.remove("here");
    here = messages.indexOf(message);
    message.classList.add("here");
    message.tabIndex = -1;
    message.focus({ preventScroll: true });
    message.scrollIntoView({ block: "start" });
  }

  // From the message one is at; from the top of the window after scrolling away from it.
  function step(list, by) {
    if (!list.length) return;
    const at = messages[here];
    let next;
    if (at && inView(at)) {
      const order = (m) => messages.indexOf(m);
      next = by > 0 ? list.find((m) => order(m) > here) : list.findLast((m) => order(m) < here);
    } else {
      const top = (m) => m.getBoundingClientRect().top;
      next = by > 0 ? list.find((m) => top(m) > BAR - 40) : list.findLast((m) => top(m) < BAR - 40);
    }
    if (next) goTo(next);
  }

  function foldAll() {
    const folds = [...document.querySelectorAll("main .fold")];
    const open = !folds.some((fold) => fold.open);
    for (const fold of folds) fold.open = open;
    byId("folds").textContent = open ? "Fold" : "Unfold";
    if (messages[here]) messages[here].scrollIntoView({ block: "start" });
  }

  function toggleFolds() {
    const own = [...(messages[here]?.querySelectorAll(":scope > .fold") ?? [])];
    const open = !own.some((fold) => fold.open);
    for (const fold of own) fold.open = open;
  }

  // A link to a message that is a fold, or to something inside one: whoever follows it wants to read that.
  function arrive() {
    messages[here]?.classList.remove("here");
    const aim = byId(location.hash.slice(1));
    here = messages.indexOf(aim?.closest(".message"));
    if (!aim || here < 0) return;
    if (aim.matches(".quiet")) aim.querySelector(":scope > .fold").open = true;
    for (let fold = aim.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    aim.scrollIntoView({ block: "start" });
  }

  function follow() {
    const links = [...document.querySelectorAll("#prompts a")].map((link) => [link, byId(link.hash.slice(1))]);
    let current = null;
    let waiting = false;
    const mark = () => {
      waiting = false;
      const found = links.findLast(([, message]) => message && message.getBoundingClientRect().top < innerHeight / 3);
      const link = found ? found[0] : null;
      if (link === current) return;
      current?.removeAttribute("aria-current");
      link?.setAttribute("aria-current", "true");
      current = link;
      const nav = byId("prompts");
      if (link && (link.offsetTop < nav.scrollTop || link.offsetTop + link.offsetHeight > nav.scrollTop + nav.clientHeight)) {
        nav.scrollTop = link.offsetTop - nav.clientHeight / 3;
      }
    };
    addEventListener("scroll", () => { if (!waiting) { waiting = true; requestAnimationFrame(mark); } }, { passive: true });
    mark();
  }

  // --- finding: ranges are painted over the text, which stays as it is ---

  const MOST_HITS = 5000;
  const lower = (text) => { const low = text.toLowerCase(); return low.length === text.length ? low : text; };
  let texts = null; // of each message: its text nodes, where each begins, and all of it in lower case
  let hits = [];
  let now = -1;

  function read(message) {
    // The line of a fold repeats what is inside it.
    const inside = (node) => (node.parentElement.closest(".about, .message > header") ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT);
    const walker = document.createTreeWalker(message, NodeFilter.SHOW_TEXT, inside);
    const nodes = [], starts = [], parts = [];
    let length = 0;
    while (walker.nextNode()) {
      nodes.push(walker.currentNode);
      starts.push(length);
      parts.push(walker.currentNode.data);
      length += walker.currentNode.length;
    }
    return { nodes, starts, text: lower(parts.join("")) };
  }

  function rangeAt({ nodes, starts }, from, to) {
    const nodeAt = (place) => {
      let low = 0, high = starts.length - 1;
      while (low < high) { const mid = (low + high + 1) >> 1; if (starts[mid] <= place) low = mid; else high = mid - 1; }
      return low;
    };
    const range = new Range();
    const first = nodeAt(from), last = nodeAt(to - 1);
    range.setStart(nodes[first], from - starts[first]);
    range.setEnd(nodes[last], to - starts[last]);
    return range;
  }

  function folds(range) {
    const found = [];
    const element = range.startContainer.parentElement;
    for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) {
      const head = fold.firstElementChild;
      if (!head.contains(element)) found.push(fold); // a line that is always in sight
    }
    return found;
  }

  const paint = (name, ranges) => { if (CSS.highlights) CSS.highlights.set(name, new Highlight(...ranges)); };

  function find() {
    const wanted = lower(byId("find").value.trim());
    for (const marked of document.querySelectorAll(".found")) marked.classList.remove("found");
    hits = [];
    now = -1;
    texts ??= messages.map(read);
    let more = 0;
    messages.forEach((message, place) => {
      const { text } = texts[place];
      let at = wanted ? text.indexOf(wanted) : -1;
      message.classList.toggle("hit", at >= 0);
      for (; at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
        if (hits.length < MOST_HITS) hits.push(rangeAt(texts[place], at, at + wanted.length));
        else more += 1;
      }
    });
    for (const hit of hits) for (const fold of folds(hit)) fold.classList.add("found");
    paint("hit", hits);
    paint("now", []);
    document.body.classList.toggle("only", Boolean(wanted) && byId("only").getAttribute("aria-pressed") === "true");
    byId("count").textContent = !wanted ? "" : hits.length ? "" : "no hit";
    if (hits.length) visit(firstBelow(), more);
  }

  function firstBelow() {
    const found = hits.findIndex((hit) => hit.startContainer.parentElement.closest(".message").getBoundingClientRect().bottom > BAR);
    return Math.max(found, 0);
  }

  function visit(place, more = 0) {
    if (!hits.length) return;
    now = (place + hits.length) % hits.length;
    const hit = hits[now];
    for (const fold of folds(hit)) fold.open = true;
    paint("now", [hit]);
    byId("count").textContent = `${now + 1} of ${hits.length}${hits.length === MOST_HITS || more ? "+" : ""}`;
    const message = hit.startContainer.parentElement.closest(".message");
    messages[here]?.classList.remove("here");
    here = messages.indexOf(message);
    if (!inView(message)) message.scrollIntoView({ block: "start" });
    requestAnimationFrame(() => requestAnimationFrame(() => reveal(hit)));
  }

  function reveal(hit) {
    const box = () => hit.getBoundingClientRect();
    const pre = hit.startContainer.parentElement.closest("pre");
    if (pre) {
      const frame = pre.getBoundingClientRect();
      if (box().top < frame.top || box().bottom > frame.bottom) pre.scrollTop += box().top - frame.top - pre.clientHeight / 3;
      if (box().right > frame.right || box().left < frame.left) pre.scrollLeft += box().left - frame.left - pre.clientWidth / 3;
    }
    if (box().top < BAR || box().bottom > innerHeight) scrollBy(0, box().top - innerHeight / 3);
  }

  function keyboard() {
    const keys = {
      j: () => step(shown(), 1), k: () => step(shown(), -1),
      n: () => step(shown().filter((m) => m.classList.contains("human")), 1),
      p: () => step(shown().filter((m) => m.classList.contains("human")), -1),
      t: foldAll, "?": () => byId("help").showModal(),
      "/": () => { byId("find").focus(); byId("find").select(); },
      Escape: () => { byId("prompts").classList.remove("open"); },
    };
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
      if (event.target.matches("input, select, textarea")) {
        if (event.target.id !== "find") return;
        if (event.key === "Enter") { event.preventDefault(); visit(now + (event.shiftKey ? -1 : 1)); }
        if (event.key === "Escape") { event.target.value = ""; find(); event.target.blur(); }
        return;
      }
      if (event.key === "Enter" && !event.target.closest("a, button, summary")) toggleFolds();
      const act = keys[event.key];
      if (act) { event.preventDefault(); act(); }
    });
  }

  function session() {
    messages = [...document.querySelectorAll(".message")];
    when("find", "input", later(find, 120));
    when("back", "click", () => visit(now - 1));
    when("on", "click", () => visit(now + 1));
    when("only", "click", ({ currentTarget: button }) => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      find();
    });
    when("folds", "click", foldAll);
    when("keys", "click", () => byId("help").showModal());
    when("close", "click", () => byId("help").close());
    when("menu", "click", () => byId("prompts").classList.toggle("open"));
    when("prompts", "click", (event) => { if (event.target.closest("a")) byId("prompts").classList.remove("open"); });
    addEventListener("hashchange", arrive);
    if (location.hash) arrive();
    keyboard();
    follow();
  }

  // --- the index ---

  function index() {
    const months = [...document.querySelectorAll(".month")].map((month) => ({
      month,
      rows: [...month.querySelectorAll(".row")].map((row) => ({
        row,
        text: lower(row.textContent),
        agent: row.querySelector(".agent").textContent,
        project: row.querySelector(".project").textContent,
        sub: Boolean(row.querySelector(".mark")),
      })),
    }));
    const apply = () => {
      const words = lower(byId("filter").value).split(/\s+/).filter(Boolean);
      const [agent, project, subs] = [byId("agent").value, byId("project").value, byId("subs")?.checked ?? true];
      let count = 0, all = 0;
      for (const { month, rows } of months) {
        let here = 0;
        for (const { row, text, ...is } of rows) {
          const fits = (!agent || is.agent === agent) && (!project || is.project === project) && (subs || !is.sub) && words.every((word) => text.includes(word));
          row.hidden = !fits;
          here += fits;
          all += 1;
        }
        count += here;
        month.hidden = !here;
        month.querySelector("small").textContent = here.toLocaleString();
      }
      byId("count").textContent = count === all ? "" : `${count.toLocaleString()} of ${all.toLocaleString()}`;
    };
    when("filter", "input", later(apply, 80));
    for (const id of ["agent", "project", "subs"]) when(id, "change", apply);
    addEventListener("keydown", (event) => {
      if (event.key === "/" && !event.target.matches("input")) { event.preventDefault(); byId("filter").focus(); }
      if (event.key === "Escape" && event.target.id === "filter") { event.target.value = ""; apply(); event.target.blur(); }
    });
    apply(); // a browser that comes back fills the fields by itself
  }

  document.addEventListener("DOMContentLoaded", () => {
    themes();
    times();
    if (document.body.classList.contains("session")) session();
    else index();
  });
})();
