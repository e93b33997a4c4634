// Presses the keys of a user in the VS Code that `vscode.sh` serves: node vscode.mjs ADDRESS FILE PICTURES.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [address, file, shots] = process.argv.slice(2);
const inside = createRequire(join(process.env.BROWSER, "package.json"));
const { chromium } = inside("playwright-core");
const packed = await import(pathToFileURL(inside.resolve("@sparticuz/chromium")));
const browser = await chromium.launch({ args: packed.default.args, executablePath: await packed.default.executablePath() });
const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
page.setDefaultTimeout(120_000);
let done = 0;
const test = async (name, body) => {
  try {
    await body();
  } catch (error) {
    await page.screenshot({ path: join(shots, "failed.png") });
    throw error;
  }
  done += 1;
  console.log(`ok ${name}`);
};
const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
const text = async () => (await page.locator(".view-lines").innerText()).replaceAll("\u00a0", " ");
/** Waits until something is true, as a person would. */
const until = async (what, found) => {
  for (let n = 0; n < 300; n++) {
    if (await found()) return;
    await page.waitForTimeout(200);
  }
  throw new Error(`never came: ${what}`);
};
/** Puts the cursor behind a column of a line. */
const go = async (line, column) => {
  const input = page.locator(".quick-input-widget input").first();
  await until("a field for the line", async () => {
    await press("Control+g");
    await page.waitForTimeout(300);
    return input.isVisible();
  });
  await input.fill(`:${line}:${column}`);
  await press("Enter");
};
const shot = (name) => page.screenshot({ path: join(shots, `${name}.png`) });

await page.goto(address);
await page.locator(".monaco-workbench").waitFor();
await test("a spec opens with colours, and its mistake is underlined", async () => {
  await page.locator(".explorer-folders-view").getByText("tiny.rt").dblclick();
  await page.locator(".view-lines").waitFor();
  await page.locator(".squiggly-error").first().waitFor();
  const colours = new Set(await page.locator(".view-lines span span").evaluateAll((all) => all.map((e) => getComputedStyle(e).color)));
  assert.ok(colours.size >= 4, [...colours].join());
  assert.equal(await page.locator(".statusbar-item").getByText("rtc spec").count(), 1);
  await shot("problem");
});

await test("did you mean: the quick fix mends it", async () => {
  await go(8, 24);
  const offer = page.locator(".action-widget").getByText("hidden");
  // What the server found may come later than the key.
  await until("the offer", async () => {
    await press("Escape", "Control+.");
    await page.waitForTimeout(1000);
    return offer.isVisible();
  });
  await press("Enter");
  await until("the word", async () => (await text()).includes("feedforward { hidden: 16 }"));
  await page.locator(".squiggly-error").first().waitFor({ state: "detached" });
});

await test("hints have shapes and parameters", async () => {
  await until("a hint", async () => /parameters/.test(await text()));
  await shot("hints");
});

await test("a hover explains a word", async () => {
  await go(7, 44);
  await press("Control+k", "Control+i");
  await page.locator(".monaco-hover").getByText(/rotat|xPos/i).first().waitFor();
  await shot("hover");
});

await test("completion offers what may stand there", async () => {
  await go(7, 200);
  await press("Enter");
  await page.keyboard.type("feed");
  await press("Control+Space");
  await page.locator(".suggest-widget .monaco-list-row").getByText("feedforward").first().waitFor();
  await shot("completion");
  await press("Escape", "Control+Shift+k");
  await until("the old text", async () => !/feed *$/m.test(await text()));
});

await test("a rename changes every place", async () => {
  await go(2, 8);
  await press("F2");
  await page.locator(".rename-box input").waitFor();
  await page.locator(".rename-box input").fill("small");
  await press("Enter");
  await until("both names", async () => /model small[^]*of small/.test(await text()));
});

await test("the definition of a name is where it is told", async () => {
  await go(13, 21);
  await press("F12");
  await until("the line", async () => (await page.locator(".statusbar-item").getByText("Ln 2,").count()) === 1);
});

await test("the layout is that of rtc fmt", async () => {
  await go(3, 5);
  await page.keyboard.type("      ");
  await press("F1");
  await page.locator(".quick-input-widget input").first().fill(">Format Document");
  await page.locator(".quick-input-list").getByText("Format Document", { exact: true }).first().waitFor();
  await press("Enter");
  await until("four spaces", async () => /\n {4}embed/.test(await text()));
});

await test("a saved spec is what was shown", async () => {
  await press("Control+s");
  await until("the file", () => /model small \{\n {4}embed[^]*of small/.test(readFileSync(file, "utf8")));
});

await browser.close();
console.log(`${done} passed`);
