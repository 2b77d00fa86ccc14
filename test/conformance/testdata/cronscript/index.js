addEventListener("scheduled", (event) => {
  const { cron, scheduledTime } = event;
  console.log(JSON.stringify({ cron, scheduledTime, type: typeof scheduledTime, waitUntil: typeof event.waitUntil }));
  event.waitUntil(fetch(`${GATE}/count/cron-script`));
});
