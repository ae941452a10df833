/** Generates `docs/provider-presets.md` from the presets. */
import { type Preset, type PresetFact, presetLimits } from '../../src/gatehouse/connected-apps/presets.ts';

const PREAMBLE = `# Presets of providers

Settings of a [connected app](connected-apps.md) for well-known providers, with the reasons and where each was read. "Register an app" under
\`/admin/connected-apps\` begins with a list of them; \`doctor\` and \`apps check\` name the fields in which an app of such a
provider differs. They are data, in \`src/gatehouse/connected-apps/presets.json\`, and Gatehouse behaves the same with and without them.
[providers.md](providers.md#what-was-tried) shows what was tried with them. Providers change: their own documentation is right where it differs.

Every app also needs \`id\`, \`name\`, \`clientId\`, \`clientSecret\` and \`callbackUrls\`.`;

export function presetPage(presets: readonly Preset[]): string {
  return `${[PREAMBLE, ...presets.map(section)].join('\n\n')}\n`;
}

function section(preset: Preset): string {
  const { name, app, placeholders, facts, registration } = preset;
  const limits = presetLimits(preset);
  const instructions = Object.entries(placeholders).map(
    ([placeholder, { title, example }]) => `- Replace \`{${placeholder}}\`: ${title}, such as \`${example}\`.`,
  );
  return [
    `## ${name}`,
    ...(limits.length > 0 ? [`*${limits.join(' ')}*`] : []),
    ['```json', JSON.stringify(app, null, 2), '```'].join('\n'),
    [registrationLine(registration), ...instructions, ...facts.map(factLine)].join('\n'),
  ].join('\n\n');
}

function registrationLine({ place, fields: { callback, postLogout }, source }: Preset['registration']): string {
  const logout = postLogout === undefined ? '' : `, and the post-logout redirect URL under "${postLogout}"`;
  return `- Where to register: ${place}. Enter the callback URL under "${callback}"${logout}. ([source](${source}))`;
}

function factLine({ text, source }: PresetFact): string {
  return `- ${text} ${source === undefined ? '*Not confirmed.*' : `([source](${source}))`}`;
}
