/** Starts the front ends of docs/your-front-end.md as the document says, except for the ports. */
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
/** The port of Gatehouse in the document. */
const GATEHOUSE_PORT = '3000';
export const frontEndText = readFileSync(join(ROOT, 'docs/your-front-end.md'), 'utf8');
/** The code block of the document with this text after its fence. */
export const codeBlock = (info: string) =>
  new RegExp(`^\`\`\`${info}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(frontEndText)?.[1] ?? '';

interface FrontEnd {
  /** The heading of its section. */
  heading: string;
  file: string;
  command: string[];
}

export const FRONT_ENDS: { vite: FrontEnd; express: FrontEnd } = {
  vite: { heading: '## Vite', file: 'vite.config.js', command: ['node', 'node_modules/vite/bin/vite.js'] },
  express: { heading: '## Express', file: 'site.mjs', command: ['node', 'site.mjs'] },
};

/** Starts a front end that serves Gatehouse below a path. @returns Gatehouse, and the URL of the front end */
export async function startFrontEnd(
  { heading, file, command }: FrontEnd,
  /** More files of the front end, by their path. */
  moreFiles: Record<string, string> = {},
  /** Changes of the connected app. */
  app: Record<string, unknown> = {},
): Promise<{ site: TestSite; url: string }> {
  const publicUrl = /`PUBLIC_URL=(http:\/\/\w[\w.]*:(\d+))\/gatehouse`/.exec(sectionOf(frontEndText, heading));
  const [, documentedUrl = '', documentedPort = ''] = publicUrl ?? [];
  const port = String(await freePort());
  const url = documentedUrl.replace(documentedPort, port);
  const [, trustedProxies = ''] = /^TRUSTED_PROXIES=(.+)$/m.exec(frontEndText) ?? [];
  const site = await startSite({ env: { PUBLIC_URL: `${url}/gatehouse`, TRUSTED_PROXIES: trustedProxies }, app });
  const close = once(site.close);
  onTestFinished(close);

  const folder = emptyFolder();
  mkdirSync(join(folder, 'public'));
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const files = {
    [file]: codeBlock(`js ${file}`)
      .replace(GATEHOUSE_PORT, site.env.PORT ?? '')
      .replace(documentedPort, port),
    // Vite and Express look for it in different places.
    'index.html': '<p>The site</p>',
    'public/index.html': '<p>The site</p>',
    ...moreFiles,
  };
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);

  const program = startProgram(command, {}, folder);
  onTestFinished(async () => {
    program.signal('SIGTERM');
    await program.ended;
  });
  const isReady = async () => {
    const response = await sendRequest(`${url}/`).catch(() => undefined);
    return response?.status === 200;
  };
  const rejectWhenEnded = async () => {
    await program.ended;
    throw new Error(program.stdout() + program.stderr());
  };
  await Promise.race([until(isReady), rejectWhenEnded()]);

  return { site: { ...site, close }, url };
}
