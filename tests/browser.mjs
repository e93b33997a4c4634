// Drives the pages that `browser.sh` made: node browser.mjs FOLDER ADDRESS PICTURES.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, address, shots] = process.argv.slice(2);
const inside = createRequire(join(process.env.BROWSER, "package.json"));
const { chromium } = inside("playwright-core");
const packed = await import(pathToFileURL(inside.resolve("@sparticuz/chromium")));
const browser = await chromium.launch({ args: packed.default.args, executablePath: await packed.default.executablePath() });
const [grid, run] = ["grid.html", "run.html"].map((name) => pathToFileURL(join(folder, name)).href);
const broken = [];

/** A page, with everything that goes wrong in it. */
const open = async (url, options = {}) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  // A busy machine takes its time for a picture of a long page.
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  page.on("pageerror", (error) => broken.push(String(error)));
  page.on("console", (message) => message.type() === "error" && broken.push(message.text()));
  page.on("request", (request) => {
    if (!request.url().startsWith(new URL(url).origin === "null" ? "file:" : new URL(url).origin)) broken.push(request.url());
  });
  await page.goto(url);
  return page;
};
const shot = (page, name) => page.screenshot({ path: join(shots, `${name}.png`), fullPage: true });
let done = 0;
const test = async (name, body) => {
  await body();
  assert.deepEqual(broken, [], name);
  done += 1;
  console.log(`ok ${name}`);
};
const loss = (page) => page.locator("figure[data-name=loss_dev]");
const lines = (chart) => chart.locator(".plot path.line, .plot path.faint").count();
const ticks = (chart) => chart.locator(".plot text.tick[text-anchor=middle]").allTextContents();

await test("the pointer finds the nearest point", async () => {
  const page = await open(grid), chart = loss(page), tip = chart.locator(".tip");
  await chart.scrollIntoViewIfNeeded();
  assert.equal(await tip.isVisible(), false);
  const box = await chart.locator(".plot svg").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 60);
  assert.match(await tip.textContent(), /tiny.*update: [\d,]+.*task loss: [\d.]+/);
  await page.mouse.move(box.x + box.width / 2, box.y - 400);
  assert.equal(await tip.isVisible(), false);
});

await test("what a finger finds stays", async () => {
  const page = await open(run, { viewport: { width: 360, height: 740 }, hasTouch: true });
  const chart = page.locator("figure[data-name=loss]"), tip = chart.locator(".tip");
  await chart.scrollIntoViewIfNeeded();
  const box = await chart.locator(".plot svg").boundingBox();
  await page.touchscreen.tap(box.x + 200, box.y + 100);
  assert.match(await tip.textContent(), /update: \d+/);
  assert.ok(await tip.isVisible());
});

await test("keys go from point to point and from line to line", async () => {
  const page = await open(grid), chart = loss(page), tip = chart.locator(".tip");
  await chart.locator(".plot svg").focus();
  const told = async (key) => { await page.keyboard.press(key); return tip.textContent(); };
  const first = await told("ArrowRight"), second = await told("ArrowRight");
  assert.notEqual(first, second);
  assert.equal(await told("ArrowLeft"), first);
  const other = await told("ArrowDown");
  assert.notEqual(other, first);
  assert.equal(await told("ArrowUp"), first);
  assert.match(await told("End"), /update/);
  const whole = await ticks(chart);
  await page.keyboard.press("+");
  assert.notDeepEqual(await ticks(chart), whole);
  await page.keyboard.press("0");
  assert.deepEqual(await ticks(chart), whole);
  await page.keyboard.press("Escape");
  assert.equal(await tip.isVisible(), false);
});

await test("an entry of the legend hides its lines in every chart", async () => {
  const page = await open(grid), chart = loss(page), before = await lines(chart);
  const entry = chart.locator(".legend button").first();
  assert.equal(await entry.getAttribute("aria-pressed"), "true");
  await entry.click();
  assert.equal(await entry.getAttribute("aria-pressed"), "false");
  const rows = await chart.locator(".legend button").count();
  assert.equal(await lines(chart), before - before / rows, "one of the rows");
  const others = await page.locator(".legend button[aria-pressed=false]").count();
  assert.ok(others > 5, "the row is hidden in every chart");
  await entry.focus();
  await page.keyboard.press("Enter");
  assert.equal(await lines(chart), before);
});

await test("a drag zooms, a double click and the button show all", async () => {
  const page = await open(grid), chart = loss(page), all = await ticks(chart);
  const reset = chart.getByRole("button", { name: "whole range" });
  const drag = async () => {
    await chart.scrollIntoViewIfNeeded();
    const box = await chart.locator(".plot svg").boundingBox();
    await page.mouse.move(box.x + box.width * 0.4, box.y + 80);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 120, { steps: 5 });
    await page.mouse.up();
    return box;
  };
  assert.equal(await reset.isVisible(), false);
  const box = await drag();
  assert.notDeepEqual(await ticks(chart), all);
  await page.mouse.dblclick(box.x + box.width / 2, box.y + 100);
  assert.deepEqual(await ticks(chart), all);
  await drag();
  await reset.click();
  assert.deepEqual(await ticks(chart), all);
});

await test("the vertical axis counts in factors", async () => {
  const page = await open(run), chart = page.locator("figure[data-name=loss]");
  const line = () => chart.locator(".plot path.line").first().getAttribute("d");
  const [before, button] = [await line(), chart.getByRole("button", { name: "log y" })];
  await button.click();
  assert.equal(await button.getAttribute("aria-pressed"), "true");
  assert.notEqual(await line(), before);
  await button.click();
  assert.equal(await line(), before);
});

await test("training curves are smoothed as one likes", async () => {
  const page = await open(run), chart = page.locator("figure[data-name=loss]"), control = page.locator("input[type=range]");
  const line = () => chart.locator(".plot path.line").first().getAttribute("d");
  const usual = await line();
  await control.focus();
  await page.keyboard.press("Home");
  assert.equal(await control.getAttribute("aria-valuetext"), "none");
  const none = await line();
  await page.keyboard.press("End");
  assert.equal(new Set([usual, none, await line()]).size, 3);
});

await test("headers sort, by pointer and by key", async () => {
  const page = await open(grid), table = page.locator("#runs ~ .wide table");
  const column = async (n) => table.locator(`tbody tr td:nth-child(${n})`).allTextContents();
  const header = table.locator("thead th").nth(3), written = await column(4);
  await header.getByRole("button").click();
  assert.equal(await header.getAttribute("aria-sort"), "ascending");
  assert.deepEqual(await column(4), [...written].sort());
  await header.getByRole("button").focus();
  await page.keyboard.press("Enter");
  assert.equal(await header.getAttribute("aria-sort"), "descending");
  assert.deepEqual(await column(4), [...written].sort().reverse());
  await page.keyboard.press("Space");
  assert.equal(await header.getAttribute("aria-sort"), "none");
  assert.deepEqual(await column(4), written);
});

await test("the filter leaves the runs with all words", async () => {
  const page = await open(grid), field = page.getByLabel("Filter");
  const faint = () => loss(page).locator(".plot path.faint").count();
  const before = await faint();
  await field.fill("no_gate SEED2");
  assert.equal(await page.locator("#runs ~ .wide tbody tr:visible").count(), 1);
  assert.equal(await page.locator("details.run:visible").count(), 1);
  assert.equal(await faint() * 6, before, "one of two rows with three seeds each");
  await field.fill("");
  assert.equal(await faint(), before);
  assert.equal(await page.locator("details.run:visible").count(), await page.locator("details.run").count());
});

await test("everything that can be pressed has a name", async () => {
  for (const url of [grid, run]) {
    const page = await open(url);
    const nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, svg:not([aria-hidden])")]
      .filter((e) => !(e.textContent.trim() && e.tagName === "BUTTON") && !e.getAttribute("aria-label") && !e.closest("label"))
      .map((e) => e.outerHTML.slice(0, 80)));
    assert.deepEqual(nameless, []);
    await page.locator("summary").first().focus();
    await page.keyboard.press("Tab");
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.equal(outline, "solid", "the focus can be seen");
  }
});

await test("a phone scrolls no page sideways, in both themes", async () => {
  for (const colorScheme of ["light", "dark"]) {
    for (const [name, url] of Object.entries({ grid, run })) {
      for (const [device, viewport] of Object.entries({ desk: { width: 1280, height: 900 }, phone: { width: 360, height: 740 } })) {
        const page = await open(url, { colorScheme, viewport });
        const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
        assert.ok(wide <= seen, `${name} on a ${device}: ${wide} > ${seen}`);
        await shot(page, `${name}-${device}-${colorScheme}`);
      }
    }
  }
});

await test("without scripts every chart is a picture", async () => {
  const page = await open(grid, { javaScriptEnabled: false });
  assert.equal(await page.locator("figure > svg.picture").count(), await page.locator("figure").count());
  assert.ok(await loss(page).locator("svg.picture").isVisible());
  await shot(page, "grid-still");
});

await test("a page that is served follows its runs", async () => {
  const page = await open(address);
  await page.waitForSelector("text=This page follows the records of its runs.");
  await loss(page).locator(".legend button").first().click();
  const before = await page.locator("#runs ~ .wide tbody tr").count();
  const more = ["--quiet", "ablate", "grid.yaml", "--plain"];
  const text = readFileSync(join(folder, "grid.yaml"), "utf8");
  writeFileSync(join(folder, "grid.yaml"), text.replace("seeds: [1, 2, 3]", "seeds: [1, 2, 3, 4]"));
  execFileSync(process.env.RTC, more, { cwd: folder });
  await page.waitForFunction((rows) => document.querySelectorAll("#runs ~ .wide tbody tr").length === rows, before + 2);
  const pressed = await loss(page).locator(".legend button").first().getAttribute("aria-pressed");
  assert.equal(pressed, "false", "what was hidden stays hidden");
});

console.log(`${done} tests passed`);
await browser.close();
