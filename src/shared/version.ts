/** The version of this program, for people, metrics and traces. `package.json` alone says it. */
import packageJson from '../../package.json' with { type: 'json' };

/** As in Semantic Versioning, such as `1.2.3`. */
export const VERSION: string = packageJson.version;
