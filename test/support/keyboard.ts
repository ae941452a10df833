/** Uses a page as an administrator without a mouse does: finds controls with the Tab key only. */
import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import { navigateBy } from './journey.ts';

/** More than any page of the tests has; a control that the Tab key never reaches is found by this limit. */
const MAX_TABS = 120;

/** Whether the middle of the focused element is in the window, and nothing covers it (WCAG 2.4.11). */
const IS_FOCUS_SEEN = `(() => {
  const { left, top, width, height } = document.activeElement.getBoundingClientRect();
  const seen = document.elementFromPoint(left + width / 2, top + height / 2);
  return seen !== null && (document.activeElement.contains(seen) || seen.contains(document.activeElement));
})()`;

export type Keyboard = ReturnType<typeof keyboardOf>;

export function keyboardOf(page: Page) {
  const press = (key: string) => page.keyboard.press(key);
  const isFocused = async (target: Locator) => (await target.and(page.locator(':focus')).count()) > 0;
  const expectFocus = (target: Locator) =>
    expect.poll(() => isFocused(target), { message: `the focus is on ${target}` }).toBe(true);

  async function tabTo(target: Locator): Promise<void> {
    for (let tabs = 0; tabs < MAX_TABS; tabs += 1) {
      await press('Tab');
      if (!(await isFocused(target))) continue;
      expect(await page.evaluate(IS_FOCUS_SEEN), `the focused ${target} can be seen`).toBe(true);
      return;
    }
    throw new Error(`The Tab key never reaches ${target} on ${page.url()}.`);
  }

  /** Presses Enter and waits for another page. */
  const enter = () => navigateBy(page, () => press('Enter'));

  const named = (role: 'link' | 'button', name: string) => page.locator('main').getByRole(role, { name, exact: true });

  return {
    press,
    tabTo,
    enter,
    expectFocus,
    async follow(role: 'link' | 'button', name: string): Promise<void> {
      await tabTo(named(role, name));
      await enter();
    },
    /** Leads to a page of the menu and its tabs. */
    async open(section: string, tab?: string): Promise<void> {
      await tabTo(page.locator('.site-nav').getByRole('link', { name: section, exact: true }));
      await enter();
      if (tab === undefined) return;
      await tabTo(page.locator('.tab-list').getByRole('link', { name: tab, exact: true }));
      await enter();
    },
    async search(text: string): Promise<void> {
      await press('/');
      await page.keyboard.type(text);
      await enter();
    },
    /** Replaces the text of a field. The Tab key selects the text. */
    async type(label: string, text: string): Promise<void> {
      await tabTo(page.getByLabel(label, { exact: true }));
      await page.keyboard.type(text);
    },
    /** Chooses the first option that begins with this text. */
    async select(label: string, text: string): Promise<void> {
      const field = page.getByLabel(label, { exact: true });
      await tabTo(field);
      await page.keyboard.type(text);
      expect(await field.locator('option:checked').innerText()).toBe(text);
    },
    async check(label: string): Promise<void> {
      const box = page.getByLabel(label, { exact: true });
      await tabTo(box);
      await press('Space');
      expect(await box.isChecked()).toBe(true);
    },
    /** Goes to the group of radio buttons, and with the arrow keys to one of them. */
    async choose(group: string, label: string): Promise<void> {
      const radios = page.getByRole('group', { name: group, exact: true }).getByRole('radio');
      await tabTo(radios);
      const radio = page.getByLabel(label, { exact: true });
      for (let left = await radios.count(); left > 0 && !(await radio.isChecked()); left -= 1) await press('ArrowDown');
      expect(await radio.isChecked()).toBe(true);
    },
    /** Opens a summary, such as the menu of a row. */
    async unfold(name: string): Promise<Locator> {
      const summary = page.locator('main summary').filter({ hasText: name });
      await tabTo(summary);
      await press('Enter');
      return summary;
    },
    /** Opens a dialog, leaves it with Escape, opens it again, and confirms it. @param opener the menu with the link */
    async confirm(link: string, verb: string, opener?: Locator): Promise<void> {
      const dialog = page.getByRole('dialog');
      await tabTo(named('link', link));
      await press('Enter');
      await expectFocus(dialog.getByRole('link', { name: 'Cancel' }));
      await press('Escape');
      await dialog.waitFor({ state: 'hidden' });
      await expectFocus(opener ?? named('link', link));
      await press('Enter');
      if (opener) {
        await tabTo(named('link', link));
        await press('Enter');
      }
      await expectFocus(dialog.getByRole('link', { name: 'Cancel' }));
      await tabTo(dialog.getByRole('button', { name: verb, exact: true }));
      await enter();
    },
  };
}
