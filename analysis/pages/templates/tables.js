// SPDX-License-Identifier: GPL-2.0-only
// Tables of class "sortable": each heading is a button that sorts by its column: up, down, as it was.
(function () {
  "use strict";
  const words = new Intl.Collator("en", {numeric: true});

  // The number that a cell begins with; Infinity for "not reached", NaN where there is none.
  function number(text) {
    if (text.startsWith("not reached")) return Infinity;
    const plain = text.replace(/\u2212/g, "-").replace(/(\d)\u202f(?=\d)/g, "$1").replace(/^[<\u00d7+ ]+/, "");
    return /^-?[\d.]/.test(plain) ? parseFloat(plain) : NaN;
  }

  function keyOf(row, column) {
    const cell = row.cells[column];
    return cell.dataset.sort || cell.textContent.trim();
  }

  // Rows without a number stay below those with one, whichever way the others go.
  function compare(a, b, way) {
    const [x, y] = [number(a), number(b)];
    if (isNaN(x) && isNaN(y)) return way * words.compare(a, b);
    if (isNaN(x) || isNaN(y)) return isNaN(x) ? 1 : -1;
    return x === y ? 0 : way * (x < y ? -1 : 1);
  }

  // A cell that spans rows becomes a cell of each of them, since they will part.
  function unspan(body) {
    for (const row of Array.from(body.rows)) {
      for (const cell of Array.from(row.cells)) {
        const place = cell.cellIndex, count = cell.rowSpan;
        cell.rowSpan = 1;
        for (let k = 1, next = row.nextElementSibling; k < count && next; k++, next = next.nextElementSibling) {
          next.insertBefore(cell.cloneNode(true), next.cells[place]);
        }
      }
    }
  }

  function sort(table, rows, column, way) {
    const body = table.tBodies[0];
    unspan(body);
    table.classList.remove("points");
    const sorted = way ? rows.map((row) => [keyOf(row, column), row]).sort((a, b) => compare(a[0], b[0], way))
      .map((pair) => pair[1]) : rows;
    body.append(...sorted);
    for (const heading of table.tHead.rows[0].cells) heading.setAttribute("aria-sort", "none");
    table.tHead.rows[0].cells[column].setAttribute(
      "aria-sort", way === 1 ? "ascending" : way === -1 ? "descending" : "none");
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const rows = Array.from(table.tBodies[0].rows);
    if (rows.length < 2) continue;
    Array.from(table.tHead.rows[0].cells).forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = "sort by this column";
      button.append(...heading.childNodes);
      heading.append(button);
      heading.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const now = heading.getAttribute("aria-sort");
        sort(table, rows, column, now === "none" ? 1 : now === "ascending" ? -1 : 0);
      });
    });
  }
}());
