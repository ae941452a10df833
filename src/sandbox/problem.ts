/** Adds the cause to OAuth errors. oidc-provider hides it, but developers who use the sandbox need it. */

export interface Problem {
  error: string;
  error_description?: string;
}

export function withCause(problem: Problem, { error_detail: cause }: { error_detail?: string }): Problem {
  const description = [problem.error_description, cause].filter((text) => text !== undefined).join(': ');
  return { ...problem, ...(description ? { error_description: description } : {}) };
}
