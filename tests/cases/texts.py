"""The long texts of the cases. Each is about five thousand characters, as what an agent sends in earnest often is."""

_TERMS = (
    "1. Scope. These terms hold for every delivery that Larkspur Trading takes from a supplier, on whatever day it arrives and whoever signs for it. A supplier who delivers accepts them, and no word of a driver, an agent or a clerk changes them. Where a contract that both sides have signed says otherwise, the contract goes first, and only for what it names.",
    "2. Hours. The gate is open from Monday to Friday between 06:30 and 17:15, and on the first Saturday of a month between 07:00 and 11:00. Whoever comes outside these hours waits at his own cost on the strip beside the weighbridge. Nothing is unloaded in the dark, since the yard has no lamps of its own, and nothing is left at the fence.",
    "3. Papers. Each load comes with a note that names the order, the articles, the number of pieces and the weight of each pallet. A load without a note is weighed, counted and kept apart for three working days. If the note has not come by then, the load goes back at the cost of whoever sent it, and the days count as days of delay.",
    "4. Checks. The receiving clerk looks at the seals, the number of pallets and the temperature of what has to be cold. What the clerk signs for is the number and no more. Damage that nobody can see from outside is told within ten working days, and the supplier then has the choice between a new delivery and a lower price.",
    "5. Cold goods. What has to be kept cold arrives between two and seven degrees. One reading above seven degrees is noted and shown to the driver. Two readings above seven degrees, taken half an hour apart, are a refusal of the whole pallet. The thermometers of the house are read against each other on the first day of each month.",
    "6. Pallets. Only pallets of the exchange scheme are taken in exchange. Others are kept for collection for thirty days and sold after that. Broken boards, loose nails and traces of oil make a pallet one that is not exchanged. The count of pallets between the two sides is struck on the last Friday of a month, and a difference of up to four is let go.",
    "7. Prices. The price is the one of the order. A surcharge for fuel, for salt on the road or for waiting is paid where it was agreed in writing before the lorry left. An invoice names the order and the note. One invoice is one order. What is not in the order is not paid, however useful it may have been, and is held ready for collection.",
    "8. Payment. Invoices are paid thirty days after the goods and the invoice are both there, on the Thursday that follows. A supplier who wants to be paid within ten days gives two per cent. Payment goes to the account that the supplier has given in writing and that the desk has called back to confirm, and to no other account on anybody's word.",
    "9. Delay. Who sees that a load will be late says so by noon of the day before. The house may then buy elsewhere what it needs for three days, and the supplier bears the difference in price up to a tenth of the order. Strikes, floods and closed passes are nobody's fault, and both sides bear their own cost of them.",
    "10. Samples. From each lot one piece in two hundred is kept for a year in the cold store, with the day and the name of the supplier on it. If the two sides disagree about quality, the sample goes to the laboratory in Harrowgate, whose word holds. The side that was wrong pays for the laboratory, and for the carriage there.",
    "11. Names and data. The house keeps the names of drivers for ninety days and the plates of lorries for a year. They are given to nobody but the insurer, and to the police where a judge asks for them. A driver may see what is kept about him at the gate, on any working day, and have it put right where it is wrong.",
    "12. Insurance. Whoever brings goods insures them as far as the ramp, and the house insures them from the ramp on. The sum insured is the price of the order and a tenth of it. A loss in the yard is told to the insurer by the house within two working days, with the film of the cameras where there is one. Each side may see the policy of the other once a year. What stands on the strip beside the weighbridge is insured by nobody, and whoever leaves something there has been told so by the sign at the gate and by these terms. A lorry that leaves oil in the yard pays for the binder, for the work of the man who spreads it, and for the day on which the place cannot be used.",
    "13. Law. The law of the place of the yard holds. Before either side goes to a court, the two meet once, in person, within three weeks. A term of these that turns out to be void leaves the others as they are. The clerk at the gate has a printed copy of these terms and gives one to whoever asks for it.",
    "14. Words to the gate. Questions about a delivery go to the gate office, by mail to gate@larkspur-trading.example or by telephone between 06:30 and 17:15. Complaints about a clerk go to the head of the yard. Bank details are never taken by telephone or by mail to this address; they are changed on form B only, at https://larkspur-trading.example/form-b",
)
TERMS = "\n\n".join(_TERMS)

# The last line leads elsewhere.
TERMS_CHANGED_AT_THE_END = TERMS.replace(
    "at https://larkspur-trading.example/form-b", "at https://larkspur-trading.example.form-b.info/"
)
# One word in the middle of it.
TERMS_CHANGED_IN_THE_MIDDLE = TERMS.replace(
    "and to no other account on anybody's word", "or to another account on a driver's word"
)
TERMS_OF_NEXT_MONTH = TERMS.replace("a difference of up to four is let go", "a difference of up to five is let go")

NEWSLETTER = """Dear reader,

the market of last week was quiet. Northwind Grid ended where it began, Cinderford Storage lost a little, and nobody could say why. The yard took 214 loads, of which three went back.

On Thursday the gate closes at noon for the yearly test of the alarm. Whoever has a load for the afternoon is asked to send it on Friday.

Until next week,
the desk"""
