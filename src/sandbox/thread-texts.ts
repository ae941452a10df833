/** Texts of the platform's documents. */

export interface ThreadText {
  title: string;
  sections: readonly { heading: string; paragraphs: readonly string[]; points: readonly string[] }[];
}

export const THREAD_TEXTS: readonly ThreadText[] = [
  {
    title: 'Spring launch: plan and open questions',
    sections: [
      {
        heading: 'Where we are',
        paragraphs: [
          'The pricing page is written and with the translators. The checkout has been in a closed trial for two weeks with eleven shops; nine of them moved their whole traffic over after the first weekend.',
          'The one thing that can still move the date is the settlement report. It is right to the cent now, but it takes forty minutes for the largest shop, and they want to see it before they open in the morning.',
        ],
        points: [],
      },
      {
        heading: 'Decided on Tuesday',
        paragraphs: ['Short notes, the reasons are in the comments on each line.'],
        points: [
          'The trial shops keep their old price until the end of the year.',
          'Refunds by bank transfer come after the launch; cards & wallets are enough for the first month.',
          'Support answers in English, Danish and German from the first day. Swedish follows when Maja is back.',
          'We do not announce a date before the report takes less than five minutes.',
        ],
      },
      {
        heading: 'Open',
        paragraphs: [
          'Who tells the partners? Jonas knows most of them, but he is away in the week before. Suggestion: a letter signed by both of us, sent on the Monday, and Jonas calls the three largest ones from the train.',
          'Do we need a status page of our own? The hosting company has one, but it was green all through the outage in January.',
        ],
        points: [
          'Uma: ask finance whether the settlement report may leave out fees below one cent.',
          'Sven: load test with the recorded traffic of the last sale, on Thursday evening.',
          'Ada: go through the list of people who can see the production data, and halve it.',
        ],
      },
    ],
  },
  {
    title: 'Load test, Thursday evening: what we saw',
    sections: [
      {
        heading: 'In two sentences',
        paragraphs: [
          'The checkout carried three times the traffic of the last sale with a median of 84 ms and nothing lost. The settlement report did not: it fell behind after twenty minutes and never caught up.',
        ],
        points: [],
      },
      {
        heading: 'What was run',
        paragraphs: [
          'The recorded requests of the sale in November, played back at one, two and three times their speed for an hour each. Card numbers were replaced by test numbers before the recording was copied; the copy was deleted at 22:40.',
          'Two of the six machines were taken away at 21:15, on purpose and without telling the people on duty. They noticed after ninety seconds, which is good, and looked in the wrong place for ten minutes, which is not.',
        ],
        points: [
          'One time: median 61 ms, slowest one in a thousand 410 ms.',
          'Two times: median 66 ms, slowest one in a thousand 530 ms.',
          'Three times: median 84 ms, slowest one in a thousand 1.9 s, while two machines were missing.',
        ],
      },
      {
        heading: 'What follows',
        paragraphs: [
          'The report reads every payment twice, once for the sum and once for the fees. Reading it once would halve the time, and an index on the day would do the rest. I will try both on Monday and write down here what they bring.',
          'The alert names the load balancer although the machines behind it are the cause. Ada has a better wording.',
        ],
        points: [
          'Index on the day: Monday.',
          'Alert text: Ada, this week.',
          'Second run with real settlement data: <date to be agreed>.',
        ],
      },
    ],
  },
  {
    title: 'Who can see production data',
    sections: [
      {
        heading: 'Why this list',
        paragraphs: [
          'In March forty-one people could read payments in production. Most of them had needed it once, for one afternoon, and nobody had taken it away again. This page says who can today, and until when.',
          'Access ends by itself after thirty days. Whoever still needs it asks again here, in one line, and says for what. A line without a reason is removed on Friday.',
        ],
        points: [],
      },
      {
        heading: 'Today',
        paragraphs: [
          'Seven people and two services. The services read with tokens of their own, limited to what they do.',
        ],
        points: [
          'On duty (three people, changing weekly): read, through the audited console.',
          'Finance (two people): settlement reports, no single payments.',
          'Sven: traffic recordings without card numbers, until the load test is repeated.',
          'Ada: everything, with the second factor, and every look is in the audit log.',
          'Settlement service: payments of the last forty days, read only.',
          'Thread reader: this workspace, read only & for the person who asked.',
        ],
      },
      {
        heading: 'Next',
        paragraphs: [
          'The recordings will be cut to one hour in the coming month. The console gets a button that asks the person on duty for access, so that nobody has to write to me at night.',
          'If you find a copy of production data anywhere that is not on this page, tell me. Nobody is blamed for finding one.',
        ],
        points: ['Review with the auditors: first week of next month.', 'Remove the old reporting account: done.'],
      },
    ],
  },
];

/** The other threads of each user on the platform, as HTML. */
export const MORE_THREADS = [
  {
    type: 'spreadsheet',
    title: 'Settlement report: run times',
    content: `<table>
<thead><tr><th>Shop</th><th>Payments</th><th>Minutes</th></tr></thead>
<tbody>
<tr><td>Largest</td><td>81,204</td><td>40</td></tr>
<tr><td>Median</td><td>2,310</td><td>1.5</td></tr>
<tr><td>Smallest</td><td>12</td><td>0.1</td></tr>
</tbody>
</table>`,
  },
  {
    type: 'chat',
    title: 'Launch team',
    content: `<p><b>Jonas</b>: The letter to the partners is signed.</p>
<p><b>Maja</b>: Good. I call the two in Aarhus tomorrow.</p>
<p><b>Jonas</b>: Then I take the third one, from the train.</p>`,
  },
] as const;
