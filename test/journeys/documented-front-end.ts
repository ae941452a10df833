/** The front ends of docs/your-front-end.md, started as the document says except for ports. */
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { once } from '../../src/shared/once.ts';
import { emptyFolder, sectionOf } from '../server/shown-steps.ts';
import { startSite, type TestSite } from '../support/gatehouse.ts';
import { freePort } from '../support/ports.ts';
import { startProgram } from '../support/program.ts';
import { sendRequest } from '../support/send-request.ts';
import { until } from '../support/until.ts';

const ROOT = join(import.meta.dirname, '..', '..');
export const frontEndText = readFileSync(join(ROOT, 'docs/your-front-end.md'), 'utf8');
/** A code block of the document, by the words after its fence. */
export const block = (head: string) =>
  new RegExp(`^\`\`\`${head}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(frontEndText)?.[1] ?? '';

interface FrontEnd {
  /** That of the section. */
  heading: string;
  file: string;
  command: string[];
}

export const FRONT_ENDS: { vite: FrontEnd; express: FrontEnd } = {
  vite: { heading: '## Vite', file: 'vite.config.js', command: ['node', 'node_modules/vite/bin/vite.js'] },
  express: { heading: '## Express', file: 'site.mjs', command: ['node', 'site.mjs'] },
};

/** Starts the front end of a section with Gatehouse. `url`: that of the site, which serves Gatehouse below a path. */
export async function startFrontEnd(
  { heading, file, command }: FrontEnd,
  /** Further files of the site, by their path. */
  pages: Record<string, string> = {},
): Promise<{ site: TestSite; url: string }> {
  const [, shownUrl = '', shownPort = ''] =
    /`PUBLIC_URL=(http:\/\/\w[\w.]*:(\d+))\/gatehouse`/.exec(sectionOf(frontEndText, heading)) ?? [];
  const port = String(await freePort());
  const url = shownUrl.replace(shownPort, port);
  const [, trusted = ''] = /^TRUSTED_PROXIES=(.+)$/m.exec(frontEndText) ?? [];
  const site = await startSite({ env: { PUBLIC_URL: `${url}/gatehouse`, TRUSTED_PROXIES: trusted } });
  const close = once(site.close);
  onTestFinished(close);

  const folder = emptyFolder();
  mkdirSync(join(folder, 'public'));
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const files = {
    [file]: block(`js ${file}`)
      .replace('3000', site.env.PORT ?? '')
      .replace(shownPort, port),
    // The places where Vite and Express look for it.
    'index.html': '<p>The site</p>',
    'public/index.html': '<p>The site</p>',
    ...pages,
  };
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  const program = startProgram(command, {}, folder);
  onTestFinished(async () => {
    program.signal('SIGTERM');
    await program.ended;
  });
  const isReady = async () => (await sendRequest(`${url}/`).catch(() => undefined))?.status === 200;
  await Promise.race([
    until(isReady),
    program.ended.then(() => Promise.reject(new Error(program.stdout() + program.stderr()))),
  ]);
  return { site: { ...site, close }, url };
}
