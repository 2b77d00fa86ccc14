// The database binding: the native one, with the password taken from the environment, so that no file holds it.
class Database {
  #native;
  #password;

  constructor(native, password) {
    this.#native = native;
    this.#password = password;
  }

  get host() {
    return this.#native.host;
  }

  get port() {
    return this.#native.port;
  }

  get user() {
    return this.#native.user;
  }

  get database() {
    return this.#native.database;
  }

  get password() {
    return this.#password;
  }

  get connectionString() {
    const part = encodeURIComponent;
    return `postgresql://${part(this.user)}:${part(this.password)}@${this.host}:${this.port}/${part(this.database)}?sslmode=disable`;
  }

  connect() {
    return this.#native.connect();
  }
}

export default (env) => new Database(env.native, env.password ?? "");
