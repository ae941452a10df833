/** The error of a failed sign-in, with its entry in the table of failures. */
import { AppError, type AppErrorOptions } from '../../shared/errors.ts';
import { SIGN_IN_FAILURES, type SignInFacts, type SignInFailure } from './failures.ts';

export class SignInError extends AppError {
  readonly failure: SignInFailure;
  /** Facts for the sign-in record; pages do not show them. */
  readonly facts: SignInFacts;

  constructor(
    failure: SignInFailure,
    { facts = {}, ...options }: Omit<AppErrorOptions, 'detail' | 'whose' | 'words'> & { facts?: SignInFacts },
  ) {
    const { code, detail, detailOf, helper, page } = SIGN_IN_FAILURES[failure];
    super(code, { ...options, detail: detailOf?.(facts) ?? detail, helper, words: page });
    this.name = 'SignInError';
    this.failure = failure;
    this.facts = facts;
  }
}
