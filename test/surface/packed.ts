/** Writes a surface as a readable file, in which a shape that occurs again is only named. */
import type { Surface } from './surface.ts';

const MAX_COLUMNS = 120;
/** The roots of a response whose shape may be that of another: itself, and the items of a list. */
const ROOTS = ['body', 'body.items[]'];
const MIN_MEMBERS = 4;

type Members = Record<string, string>;

/** Returns the members below a root, by their path from it. */
function shapeBelow(root: string, members: Members): Members {
  const below = Object.entries(members).filter(([path]) => path.startsWith(`${root}.`));
  return Object.fromEntries(below.map(([path, type]) => [path.slice(root.length), type]));
}

/** `"body.*": "as GET /x 200 body"` stands for all members below `body`. */
function pack(names: Record<string, Members>): Record<string, Members> {
  const known = new Map<string, string>();
  return Object.fromEntries(
    Object.entries(names).map(([name, members]) => {
      let packed = members;
      for (const root of ROOTS) {
        const shape = shapeBelow(root, packed);
        if (Object.keys(shape).length < MIN_MEMBERS) continue;
        const text = JSON.stringify(shape);
        const earlier = known.get(text);
        if (earlier === undefined) {
          known.set(text, `${name} ${root}`);
          continue;
        }
        const others = Object.entries(packed).filter(([path]) => !path.startsWith(`${root}.`));
        packed = { ...Object.fromEntries(others), [`${root}.…`]: `as ${earlier}` };
      }
      return [name, packed];
    }),
  );
}

function unpack(names: Record<string, Members>): Record<string, Members> {
  const unpacked: Record<string, Members> = {};
  for (const [name, members] of Object.entries(names)) {
    const expanded = Object.entries(members).flatMap(([path, type]) => {
      const [, root, earlier = '', earlierRoot = ''] = /^(.*)\.… as (.*) (\S+)$/.exec(`${path} ${type}`) ?? [];
      if (root === undefined) return [[path, type]];
      const shape = shapeBelow(earlierRoot, unpacked[earlier] ?? {});
      return Object.entries(shape).map(([below, shapeType]) => [root + below, shapeType]);
    });
    unpacked[name] = Object.fromEntries(expanded);
  }
  return unpacked;
}

const PACKED_KINDS = ['requests', 'responses'];

export function toFile(surface: Surface): string {
  const kinds = Object.entries(surface).map(([kind, names]) => {
    const packed = PACKED_KINDS.includes(kind) ? pack(names) : names;
    const lines = Object.entries(packed).map(
      ([name, members]) => `    ${JSON.stringify(name)}: ${objectOf(name, members)}`,
    );
    return `  ${JSON.stringify(kind)}: {\n${lines.join(',\n')}\n  }`;
  });
  return `{\n${kinds.join(',\n')}\n}\n`;
}

/** In one line if it fits, as Biome leaves it. */
function objectOf(name: string, members: Members): string {
  const parts = Object.entries(members).map(([path, type]) => `${JSON.stringify(path)}: ${JSON.stringify(type)}`);
  const line = parts.length === 0 ? '{}' : `{ ${parts.join(', ')} }`;
  const isShort = `    ${JSON.stringify(name)}: ${line},`.length <= MAX_COLUMNS;
  return isShort ? line : `{\n${parts.map((part) => `      ${part}`).join(',\n')}\n    }`;
}

export function fromFile(text: string): Surface {
  const surface = JSON.parse(text) as Surface;
  for (const kind of PACKED_KINDS) surface[kind] = unpack(surface[kind] ?? {});
  return surface;
}
