/** The question before a change of an app that affects its users. Pure. */
import { FormQuestion } from '../../../shared/pages/form.ts';
import type { AppView } from './view.ts';

type MissingScopes = NonNullable<AppView['missingScopes']>;

/** @param missing the connections that lack an added scope */
export function saveQuestion(
  { callbackUrl, unusable }: Pick<AppView, 'callbackUrl' | 'unusable'>,
  callbackUrls: readonly string[],
  missing: MissingScopes,
): FormQuestion | undefined {
  const addsScopes = missing.connections > 0;
  const removesUrl = unusable === null && !callbackUrls.includes(callbackUrl);
  if (!addsScopes && !removesUrl) return undefined;
  const sentences = [
    ...(addsScopes ? [lackOfScopes(missing)] : []),
    ...(removesUrl ? [`Users cannot sign in or connect with the app until ${callbackUrl} is in the list again.`] : []),
  ];
  const subject = [...(addsScopes ? missing.scopes : []), ...(removesUrl ? [callbackUrl] : [])].join(' ');
  const ask = removesUrl ? 'Save the changes?' : `Add ${missing.scopes.length === 1 ? 'it' : 'them'}?`;
  return new FormQuestion(subject, {
    text: `${sentences.join(' ')} ${ask}`,
    field: addsScopes ? 'moreScopes' : 'callbackUrl-0',
  });
}

export function lackOfScopes({ scopes, connections, exact }: MissingScopes): string {
  const [noun, them, some] = scopes.length === 1 ? ['scope', 'it', ''] : ['scopes', 'them', 'some of '];
  const named = `${some}the ${noun} ${scopes.join(', ')}`;
  if (connections === 1 && exact)
    return `One connection lacks ${named} until its user consents again. It keeps working without ${them}.`;
  const count = `${exact ? '' : 'At least '}${connections.toLocaleString('en-GB')} connections`;
  return `${count} lack ${named} until their users consent again. They keep working without ${them}.`;
}
