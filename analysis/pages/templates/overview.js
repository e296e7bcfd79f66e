// SPDX-License-Identifier: GPL-2.0-only
// Which experiments are shown, and in which order.
(function () {
  "use strict";
  const form = document.getElementById("choices"), search = document.getElementById("search");
  const order = document.getElementById("order"), list = document.getElementById("cards");
  const cards = Array.from(list.children), selects = Array.from(form.querySelectorAll("select[data-key]"));

  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const card of cards) {
      const text = card.textContent.toLowerCase();
      card.hidden = !(words.every((word) => text.includes(word)) && selects.every(
        (one) => !one.value || JSON.parse(card.dataset[one.dataset.key]).includes(one.value)));
      count += !card.hidden;
    }
    const byName = (a, b) => a.dataset.name < b.dataset.name ? -1 : 1;
    list.append(...(order.value ? cards.slice().sort(byName) : cards));
    document.getElementById("count").textContent = count < cards.length ? `${count} of ${cards.length} shown` : "";
  }

  form.hidden = cards.length < 2;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  form.addEventListener("reset", () => setTimeout(show));
}());
