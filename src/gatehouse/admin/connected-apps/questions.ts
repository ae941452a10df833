/** Asks before a connected app is disabled or deleted. */
import type { ConnectedAppRegistration } from '../../../shared/provider/connected-app.ts';
import type { Revocations } from '../../grants/revocations.ts';
import { confirmation } from '../confirmation.ts';
import type { AdminParts } from '../parts.ts';
import type { ConnectedAppChanges } from './changes.ts';
import type { ConnectedAppFacts } from './facts.ts';
import { NOTICES, noticeOf } from './notices.ts';
import { type AppView, registrationIn } from './view.ts';

const DELETED = [
  'Users can no longer sign in or connect with this app. The secret is deleted here.',
  'A registration that Gatehouse made at the provider is deleted there, too. Any other stays there until you delete it. This cannot be undone.',
];

/** Of revocations that the provider has not confirmed. */
function givenUp({ count, exact }: { count: number; exact: boolean }): string[] {
  if (count === 0 && exact) return [];
  if (count === 0) return ['Revocations that the provider has not confirmed yet are given up.'];
  const words = `${exact ? '' : 'At least '}${count.toLocaleString('en-GB')} ${count === 1 && exact ? 'revocation' : 'revocations'}`;
  const verb = count === 1 && exact ? 'is' : 'are';
  return [`${words} that the provider has not confirmed yet ${verb} given up: at the provider, this access stays.`];
}

export function connectedAppQuestions(
  parts: Pick<AdminParts, 'pages' | 'publicUrl'> & {
    facts: ConnectedAppFacts;
    changes: ConnectedAppChanges;
    countRevocations: Revocations['countOf'];
  },
) {
  const { facts, changes, countRevocations, publicUrl } = parts;
  const home = `${publicUrl.basePath}/admin/connected-apps`;

  const disabling = confirmation<AppView>(parts, {
    menuPath: 'connected-apps',
    home: ({ id }) => `connected-apps/${id}`,
    find: (req) => facts.one(String(req.params.id)),
    ask: ({ name }) => ({
      action: 'Disable',
      name,
      consequences: [
        'Users cannot sign in with the app, and its calls are refused. Connections stay as they are.',
        'You can enable it again.',
      ],
      verb: 'Disable app',
    }),
    async work(req, app) {
      const { id: _, ...registration }: ConnectedAppRegistration = registrationIn(app);
      await changes.replace(req, app.id, { ...registration, disabled: true, version: app.version ?? 0 });
      return { url: `${home}/${app.id}`, flash: { notice: NOTICES.disable } };
    },
  });

  /** An app that cannot be opened has no more than its id. */
  const deletion = confirmation<{ id: string; name: string; connections: number }>(parts, {
    menuPath: 'connected-apps',
    home: ({ id, name }) => (id === name ? 'connected-apps' : `connected-apps/${id}`),
    async find(req) {
      const id = String(req.params.id);
      if ((await facts.unreadable()).includes(id)) return { id, name: id, connections: 0 };
      const { name, connections = 0 } = await facts.one(id);
      return { id, name, connections };
    },
    ask: async ({ id, name, connections }) => ({
      action: 'Delete the app',
      name,
      consequences: [
        ...(connections === 0 ? [] : ['Users are connected with this app: disconnect everyone first.']),
        ...givenUp(await countRevocations(id)),
        ...DELETED,
      ],
      verb: 'Delete app',
      typed: name,
    }),
    async work(req, { id }) {
      return { url: home, flash: { notice: noticeOf(await changes.remove(req, id, undefined)) } };
    },
  });

  return {
    askDisable: disabling.page,
    disable: disabling.form,
    askDelete: deletion.page,
    delete: deletion.form,
  };
}
