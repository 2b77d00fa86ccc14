// QueueLimitError: a limit of the database that sending again at once cannot pass.
export class QueueLimitError extends Error {
  constructor(message, code) {
    super(message);
    this.name = "QueueLimitError";
    this.code = code;
  }
}
