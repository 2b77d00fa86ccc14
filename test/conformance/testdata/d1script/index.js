// The classic syntax, whose bindings are globals.
addEventListener("fetch", (event) => {
  event.respondWith(
    DB.prepare("INSERT INTO shared_rows (n) VALUES (?)")
      .bind("from the script")
      .run()
      .then(({ meta }) => Response.json([{ value: meta.changes }])),
  );
});
