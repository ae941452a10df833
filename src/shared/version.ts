/** The version of this program, from `package.json`. */
import packageJson from '../../package.json' with { type: 'json' };

/** Semantic Versioning, such as `1.2.3`. */
export const VERSION: string = packageJson.version;
