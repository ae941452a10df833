/** Confirmation pages before a connected app is disabled or deleted. */
import type { ConnectedAppRegistration } from '../../../shared/provider/connected-app.ts';
import type { Revocations } from '../../grants/revocations.ts';
import { confirmation } from '../confirmation.ts';
import type { Editing } from '../editing.ts';
import type { AdminParts } from '../parts.ts';
import type { ConnectedAppChanges } from './changes.ts';
import { NOTICES, noticeOf } from './notices.ts';
import type { ConnectedAppReader } from './reader.ts';
import { type AppView, registrationIn } from './view.ts';

const DELETION = [
  'Users can no longer sign in or connect with this app. The secret is deleted here.',
  'If Gatehouse registered the app at the provider, that registration is deleted, too. Otherwise, delete it there yourself. This cannot be undone.',
];

function abandonedRevocations({ count, exact }: { count: number; exact: boolean }): string[] {
  if (count === 0 && exact) return [];
  if (count === 0) return ['Pending revocations are abandoned. Their access remains at the provider.'];
  const isSingle = count === 1 && exact;
  const words = `${exact ? '' : 'At least '}${count.toLocaleString('en-GB')} pending ${isSingle ? 'revocation is' : 'revocations are'}`;
  return [`${words} abandoned. ${isSingle ? 'Its' : 'Their'} access remains at the provider.`];
}

export function connectedAppQuestions(
  parts: Pick<AdminParts, 'pages' | 'publicUrl'> & {
    reader: ConnectedAppReader;
    changes: ConnectedAppChanges;
    editing: Editing;
    countRevocations: Revocations['countOf'];
  },
) {
  const { reader, changes, editing, countRevocations, publicUrl } = parts;
  const home = `${publicUrl.basePath}/admin/connected-apps`;

  const disabling = confirmation<AppView>(parts, {
    menuPath: 'connected-apps',
    home: ({ id }) => `connected-apps/${id}`,
    find: (req) => reader.read(String(req.params.id)),
    questionFor: ({ name }) => ({
      action: 'Disable',
      name,
      consequences: [
        'Users cannot sign in with the app, and its calls are refused. Connections stay as they are.',
        'You can enable it again.',
      ],
      verb: 'Disable app',
    }),
    work: (req, { id }) =>
      editing.save(id, async () => {
        const app = await reader.read(id);
        const { id: _, ...registration }: ConnectedAppRegistration = registrationIn(app);
        await changes.replace(req, id, { ...registration, disabled: true, version: app.version ?? 0 });
        return { url: `${home}/${id}`, flash: { notice: NOTICES.disable } };
      }),
  });

  // An app that cannot be opened has its id as its name.
  const deletion = confirmation<{ id: string; name: string; connections: number }>(parts, {
    menuPath: 'connected-apps',
    home: ({ id, name }) => (id === name ? 'connected-apps' : `connected-apps/${id}`),
    async find(req) {
      const id = String(req.params.id);
      if ((await reader.unreadable()).includes(id)) return { id, name: id, connections: 0 };
      const { name, connections = 0 } = await reader.read(id);
      return { id, name, connections };
    },
    questionFor: async ({ id, name, connections }) => ({
      action: 'Delete the app',
      name,
      consequences: [
        ...(connections === 0 ? [] : ['Users are connected with this app. Disconnect everyone first.']),
        ...abandonedRevocations(await countRevocations(id)),
        ...DELETION,
      ],
      verb: 'Delete app',
      typedText: name,
    }),
    async work(req, { id }) {
      return { url: home, flash: { notice: noticeOf(await changes.remove(req, id, undefined)) } };
    },
  });

  return {
    disablePage: disabling.page,
    disable: disabling.form,
    deletePage: deletion.page,
    delete: deletion.form,
  };
}
