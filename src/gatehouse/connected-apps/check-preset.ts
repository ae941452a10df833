/** Compares an app's settings with the preset of its provider, for the doctor and for `apps check`. */
import type { ConnectedApp } from '../../shared/provider/connected-app.ts';
import { type Finding, passed, unknown } from './finding.ts';
import { type PresetFact, type RecognisedPreset, recognisePreset } from './presets.ts';

/** Reports a difference, but not as a problem: the administrator may have a reason for it. */
export function checkPreset(app: ConnectedApp): Finding {
  const recognised = recognisePreset(app);
  if (!recognised) return unknown('preset', 'No preset is known for this provider.');
  const { preset, differences } = recognised;
  const [first] = differences;
  if (!first) return passed('preset', `The settings are those of the preset "${preset.name}".`);
  const fields = differences.map(({ field }) => field).join(', ');
  return unknown('preset', `The provider looks like "${preset.name}". Its preset has other settings: ${fields}.`, {
    advice: presetAdvice(recognised).join(' '),
    pointer: `#/${first.field}`,
  });
}

/** Returns the preset's value for each difference, with the facts that explain it. */
export function presetAdvice({ differences }: RecognisedPreset): string[] {
  return differences.map(({ field, advised, facts }) => [`${field}: ${advised}.`, ...facts.map(factText)].join(' '));
}

function factText({ text, confirmed }: PresetFact): string {
  return confirmed === false ? `${text} (Not confirmed.)` : text;
}
