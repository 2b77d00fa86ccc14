// Package cron reads cron expressions of the dialect that Cron Triggers have, says when they come, and says it in words.
//
// An expression has five fields, in UTC: minute (0–59), hour (0–23), day of the month (1–31), month (1–12 or JAN–DEC) and
// day of the week (1–7 or SUN–SAT; 1 is Sunday). Each is *, or a list of values, ranges (a-b, which may go over the end:
// 22-2) and steps (*/n, a/n, a-b/n). Alone in its field, the day of the month may also be L (the last day), L-n, LW, L-nW
// (the weekday nearest to that day) or nW, and the day of the week L (Saturday), nL (the last such day of the month) or
// n#m (the m-th). When neither day field is *, a day counts that either of them names.
package cron
