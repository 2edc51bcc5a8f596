"""The CSV reader on the shapes that fund houses use."""

from decimal import Decimal

import pytest

from runtime.tools.disclosure import Disclosure, read

ARK = """date,fund,company,ticker,cusip,shares,"market value ($)","weight (%)"
09/18/2021,ARKK,"TESLA INC",TSLA,88160R101,"3,215,108","$2,421,555,193.36",10.79%
09/18/2021,ARKK,"2U INC",TWOU,90214J101,"4,766,789","$173,177,444.37",0.76%
09/18/2021,ARKK,"DREYFUS GOVT CASH MAN INS",,X9USDDRYG,"27,996,221","$27,996,221.68",0.12%

"Investors should carefully consider the investment objectives, risks, charges and expenses
of a fund before investing."
"""
ISHARES = """\ufeffiShares Core S&P 500 ETF
Fund Holdings as of,"Sep 08, 2021"
Inception Date,"May 15, 2000"
Shares Outstanding,"670,350,000.00"
Stock,"-"
\u00a0
Ticker,Name,Sector,Asset Class,Market Value,Weight (%),Notional Value,Shares,Price
"AAPL","APPLE INC","Information Technology","Equity","17,838,112,345.60","60.12","17,838,112,345.60","115,000,000.00","155.11"
"GOOGL","ALPHABET INC CLASS A","Communication","Equity","6,100,000,000.00","20.50","6,100,000,000.00","2,100,000.00","2,888.30"
"GOOG","ALPHABET INC CLASS C","Communication","Equity","5,700,000,000.00","19.10","5,700,000,000.00","2,000,000.00","2,897.67"
"XTSLA","BLK CSH FND TREASURY SL AGENCY","Cash","Money Market","90,000,000.00","0.30","90,000,000.00","90,000,000.00","1.00"
"-","USD CASH","Cash and/or Derivatives","Cash","-6,000,000.00","-0.02","-6,000,000.00","-6,000,000.00","1.00"

"The content contained herein is owned or licensed by BlackRock and/or its third-party information providers."
"""
SPDR = """Fund Name:,SPDR Example 500 ETF Trust,,,,
Ticker Symbol:,SPEX,,,,
Holdings:,As of 08-Sep-2021,,,,
,,,,,
Name,Ticker,Identifier,Weight,Sector,Shares Held
APPLE INC.,AAPL,037833100,60.123456,Information Technology,167612992
MICROSOFT CORPORATION,MSFT,594918104,39.800000,Information Technology,75123456
U.S. Dollar,-,999USDZ92,0.076544,Unassigned,28000000
,,,,,
Past performance is not a reliable indicator of future performance.,,,,,
"""
INVESCO = """Fund Ticker,Security Identifier,Holding Ticker,Shares/Par Value,MarketValue,Weight,Name,Class of Shares,Sector,Date
QQEX,037833100,AAPL        ,114235720,"17,719,104,528.40",61.2,Apple Inc,Common Stock,IT,09/08/2021
QQEX,594918104,MSFT        ,57235720,"17,119,104,528.40",38.75,Microsoft Corp,Common Stock,IT,09/08/2021
QQEX,CASHUSD,            ,1235720,"1,235,720.00",0.05,Cash/Receivables/Payables,Currency,--,09/08/2021
"""
GLOBAL_X = """Example Lithium ETF
Fund Holdings Data as of 09/18/2021
% of Net Assets,Ticker,Name,SEDOL,Market Price ($),Shares Held,Market Value ($)
60.5,ALB,ALBEMARLE CORP,2046853,"235.10","2,511,234","590,391,113.40"
39.4,300014 C2,EVE ENERGY CO LTD-A,BD5CP28,"16.20","20,000,000","324,000,000.00"
0.1,,CASH,,"1.00","1,000,000","1,000,000.00"
Holdings are subject to change. Current and future holdings are subject to risk.
"""
BANCORP = """Date,Account,StockTicker,CUSIP,SecurityName,Shares,Price,MarketValue,Weightings,NetAssets,SharesOutstanding
09/18/2021,METX,NVDA,67066G104,NVIDIA CORP,1000,226.00,226000.00,70.10%,322400,10000
09/18/2021,METX,U,91332U101,Unity Software Inc,500,130.00,65000.00,29.90%,322400,10000
09/18/2021,METX,Cash&Other,Cash&Other,Cash & Other,10,1,10,0.00%,322400,10000
"""
GERMAN = """Fonds;Wertpapier;Symbol;Stichtag;Marktwert (EUR);Gewichtung (%)
TANNE;ALDER GROVE ROBOTICS INC;ALGR;30.06.2026;1.204.500,50;62,05
TANNE;CINDERFORD ENERGY STORAGE;CNDF;30.06.2026;736.000;37,9
TANNE;Bankguthaben;;30.06.2026;970,44;0,05
"""
VALUES_ONLY = """Symbol,Description,Quantity,Market Value
AAA,ALPHA,1,"1,000.00"
BBB,BETA,1,"2,000.00"
"""
TABBED = "ticker\tname\tweight (fraction)\nAAA\tALPHA\t0.6183\nBBB\tBETA\t0.38\n"


def weights(disclosure: Disclosure) -> dict[str, Decimal]:
    return {holding.ticker: holding.weight for holding in disclosure.holdings}


@pytest.mark.parametrize(
    ("text", "fund", "as_of", "expected", "unticketed"),
    [
        pytest.param(
            ARK, "ARKK", "2021-09-18", {"TSLA": "10.79", "TWOU": "0.76"}, ["DREYFUS GOVT CASH MAN INS"], id="ark"
        ),
        pytest.param(
            ISHARES,
            "iShares Core S&P 500 ETF",
            "2021-09-08",
            {"AAPL": "60.12", "GOOGL": "20.50", "GOOG": "19.10"},
            ["BLK CSH FND TREASURY SL AGENCY", "USD CASH"],
            id="ishares",
        ),
        pytest.param(
            SPDR, "SPEX", "2021-09-08", {"AAPL": "60.123456", "MSFT": "39.800000"}, ["U.S. Dollar"], id="spdr"
        ),
        pytest.param(
            INVESCO,
            "QQEX",
            "09/08/2021",
            {"AAPL": "61.2", "MSFT": "38.75"},
            ["Cash/Receivables/Payables"],
            id="invesco",
        ),
        pytest.param(
            GLOBAL_X, "Example Lithium ETF", "2021-09-18", {"ALB": "60.5", "300014 C2": "39.4"}, ["CASH"], id="global-x"
        ),
        pytest.param(BANCORP, "METX", "2021-09-18", {"NVDA": "70.10", "U": "29.90"}, ["Cash & Other"], id="bancorp"),
        pytest.param(GERMAN, "TANNE", "2026-06-30", {"ALGR": "62.05", "CNDF": "37.9"}, ["Bankguthaben"], id="german"),
        pytest.param(VALUES_ONLY, "", "", {"AAA": "33.33333333", "BBB": "66.66666667"}, [], id="values-only"),
        pytest.param(TABBED, "", "", {"AAA": "61.8300", "BBB": "38.00"}, [], id="tabs-and-fractions"),
    ],
)
def test_the_shapes_of_fund_houses_are_read(
    text: str, fund: str, as_of: str, expected: dict[str, str], unticketed: list[str]
) -> None:
    disclosure = read(text.encode())
    assert (disclosure.fund, disclosure.as_of) == (fund, as_of)
    assert weights(disclosure) == {ticker: Decimal(weight) for ticker, weight in expected.items()}
    assert [line.name for line in disclosure.without_ticker] == unticketed


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings_and_line_ends_do_not_change_what_is_read(codec: str, line_end: str) -> None:
    text = "ticker,name,weight (%)\nNSRGY,NESTLÉ SA,60\nLVMH,LVMH MOËT,40\n".replace("\n", line_end)
    disclosure = read(text.encode(codec))
    assert [line.name for line in disclosure.lines] == ["NESTLÉ SA", "LVMH MOËT"]
    assert [line.line for line in disclosure.lines] == [2, 3]


def test_windows_1252_is_said() -> None:
    disclosure = read("ticker,name,weight (%)\nNSRGY,NESTLÉ SA,100\n".encode("cp1252"))
    assert disclosure.encoding == "Windows-1252"
    assert any("line 2" in note and "Windows-1252" in note for note in disclosure.notes)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(delimiter: str) -> None:
    text = "ticker,name,weight (%)\nAAA,ALPHA,60.5\nBBB,BETA,39.5\n".replace(",", delimiter)
    assert weights(read(text.encode())) == {"AAA": Decimal("60.5"), "BBB": Decimal("39.5")}


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1.83", "1.83"),
        ("1.83%", "1.83"),
        ("1.83 %", "1.83"),
        ("+1.83", "1.83"),
        ("-0.05", "-0.05"),
        ("\u22120.05", "-0.05"),
        ("(0.05)", "-0.05"),
        ("(0.05%)", "-0.05"),
        ("(0.05)%", "-0.05"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1.000", "1.000"),
        ("9.5e-05", "0.000095"),
        ("1'234.5", "1234.5"),
        ("0", "0"),
    ],
)
def test_numbers_are_read_exactly(cell: str, value: str) -> None:
    disclosure = read(f'ticker,name,weight (%)\nAAA,ALPHA,"{cell}"\n'.encode()) if "1'234" not in cell else None
    if disclosure is None:
        disclosure = read(f"ticker,name,market value\nAAA,ALPHA,{cell}\n".encode())
        assert weights(disclosure) == {"AAA": Decimal(100)}
    else:
        assert weights(disclosure) == {"AAA": Decimal(value)}


@pytest.mark.parametrize("cell", ["", "-", "--", "N/A", "n/a", "#N/A", "—", "nan", "CASH", "CASHUSD", "USD CASH"])
def test_lines_without_a_ticker(cell: str) -> None:
    disclosure = read(f"ticker,name,weight (%)\nAAA,ALPHA,99\n{cell},US DOLLAR CASH,1\n".encode())
    assert [line.name for line in disclosure.without_ticker] == ["US DOLLAR CASH"]


def test_a_code_for_cash_is_the_name_where_there_is_no_other() -> None:
    disclosure = read(b"ticker,weight (%)\nAAA,99\nCASHUSD,1\n")
    assert [line.name for line in disclosure.without_ticker] == ["CASHUSD"]


def test_text_that_excel_was_made_to_keep_as_text() -> None:
    assert weights(read(b'ticker,name,weight (%)\n="0700",="TENCENT",100\n')) == {"0700": Decimal(100)}


def test_a_company_whose_ticker_is_cash_keeps_it() -> None:
    assert "CASH" in weights(read(b"ticker,name,weight (%)\nCASH,PATHWARD FINANCIAL INC,100\n"))


def test_several_lines_of_a_ticker_add_up_and_that_is_said() -> None:
    disclosure = read(b"ticker,name,weight (%)\nAAA,ALPHA,10.1\nBBB,BETA,5\naaa,ALPHA RIGHTS,0.25\n")
    assert weights(disclosure) == {"AAA": Decimal("10.35"), "BBB": Decimal(5)}
    assert any("AAA is on lines 2, 4" in note for note in disclosure.notes)


def test_share_classes_are_different_holdings() -> None:
    disclosure = read(
        b"ticker,name,weight (%)\nGOOG,ALPHABET C,3\nGOOGL,ALPHABET A,4\nBRK.B,BERKSHIRE B,1\nBRK.A,BERKSHIRE A,1\n"
    )
    assert set(weights(disclosure)) == {"GOOG", "GOOGL", "BRK.A", "BRK.B"}


def test_a_total_that_is_not_100_is_said_and_not_scaled() -> None:
    disclosure = read(b"ticker,name,weight (%)\nAAA,ALPHA,60\nBBB,BETA,30\n")
    assert weights(disclosure) == {"AAA": Decimal(60), "BBB": Decimal(30)}
    assert any("90 %, not 100 %" in note for note in disclosure.notes)


def test_a_unit_that_nobody_says_is_read_from_the_total_and_said() -> None:
    percent = read(b"ticker,name,weight\nAAA,ALPHA,60\nBBB,BETA,39.9\n")
    fraction = read(b"ticker,name,weight\nAAA,ALPHA,0.6\nBBB,BETA,0.399\n")
    assert weights(percent) == {"AAA": Decimal(60), "BBB": Decimal("39.9")}
    assert weights(fraction) == {"AAA": Decimal(60), "BBB": Decimal("39.9")}
    assert any("does not say its unit" in note for note in percent.notes)
    assert any("multiplied by 100" in note for note in fraction.notes)


def test_an_empty_weight_column_gives_way_to_market_values() -> None:
    disclosure = read(b"ticker,name,market value,weight (%)\nAAA,ALPHA,25,\nBBB,BETA,75,\n")
    assert weights(disclosure) == {"AAA": Decimal(25), "BBB": Decimal(75)}
    assert any("computed from" in note for note in disclosure.notes)


@pytest.mark.parametrize(
    ("header", "unit_is_said"),
    [
        ("Gewicht in %", True),
        ("% Gewicht", True),
        ("Gewichtung in Prozent", True),
        ("Anteil am Fondsvermögen (%)", True),
        ("% des Fondsvermögens", True),
        ("Poids (%)", True),
        ("Poids en %", True),
        ("Pondération (%)", True),
        ("% de l'actif net", True),
        ("Weight in percent", True),
        ("Peso (%)", True),
        ("Peso", False),
    ],
)
def test_weight_columns_of_other_languages(header: str, unit_is_said: bool) -> None:
    disclosure = read(f"ticker,name,{header}\nAAA,ALPHA,60\nBBB,BETA,40\n".encode())
    assert weights(disclosure) == {"AAA": Decimal(60), "BBB": Decimal(40)}
    assert any("does not say its unit" in note for note in disclosure.notes) != unit_is_said


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("$1,000", "$3,000", "25"),
        ("USD 1,000", "3,000 USD", "25"),
        ("US$1,000", "$3,000", "25"),
        ("1 000 €", "3 000 €", "25"),
        ("1\u202f000 €", "3\u202f000 €", "25"),
        ("1.000,00 €", "3.000 €", "25"),
        ("CHF 1'000", "CHF 3'000", "25"),
        ("(1,000.00)", "5,000.00", "-25"),
        ("-$1,000", "$5,000", "-25"),
        ("$(1,000)", "$5,000", "-25"),
        ("($1,000)", "$5,000", "-25"),
    ],
)
def test_market_values_as_people_write_money(a: str, b: str, expected: str) -> None:
    disclosure = read(f'ticker,name,market value\nAAA,ALPHA,"{a}"\nBBB,BETA,"{b}"\n'.encode())
    assert weights(disclosure)["AAA"] == Decimal(expected)


@pytest.mark.parametrize("name", ["ALPHA\nINC", "ALPHA\r\nINC", "ALPHA \n INC"])
def test_a_name_may_run_over_two_lines(name: str) -> None:
    disclosure = read(f'ticker,name,weight (%)\nAAA,"{name}",60\nBBB,"BETA, CO\nCLASS B",40\n'.encode())
    assert [line.name for line in disclosure.lines] == ["ALPHA INC", "BETA, CO CLASS B"]


def test_a_ticker_of_a_cash_class_counts_and_is_said() -> None:
    disclosure = read(
        b"ticker,name,asset class,weight (%)\nAAA,ALPHA,Equity,99\nGVMXX,STATE STREET FUND,Money Market,1\n"
    )
    assert "GVMXX" in weights(disclosure)
    assert any("GVMXX" in note and "cash by its asset class" in note for note in disclosure.notes)


@pytest.mark.parametrize("code", ["-USD-", "$USD", "--EUR--", "MARGIN_USD", "CASH_USD", "usd_cash"])
def test_codes_that_no_exchange_has_are_cash_whatever_the_name(code: str) -> None:
    disclosure = read(f"ticker,name,weight (%)\nAAA,ALPHA,99\n{code},HELD AT BROKER,1\n".encode())
    assert [line.name for line in disclosure.without_ticker] == ["HELD AT BROKER"]
    assert any(f"Line 3 ({code}) is cash" in note for note in disclosure.notes)


@pytest.mark.parametrize("code", ["USD", "EUR", "XTSLA", "USDCASH", "JPFFT"])
@pytest.mark.parametrize(
    ("name", "asset_class", "is_cash"),
    [
        ("US DOLLAR CASH", "", True),
        ("BLK CSH FND TREASURY SL AGENCY", "", True),
        ("HELD AT BROKER", "Money Market", True),
        ("HELD AT BROKER", "Cash Collateral and Margins", True),
        ("PROSHARES ULTRA SEMICONDUCTORS", "Equity", False),
        ("PROSHARES ULTRA SEMICONDUCTORS", "", False),
    ],
)
def test_codes_that_may_be_tickers_are_cash_where_the_file_says_so(
    code: str, name: str, asset_class: str, is_cash: bool
) -> None:
    text = f"ticker,name,asset class,weight (%)\nAAA,ALPHA,Equity,99\n{code},{name},{asset_class},1\n"
    assert bool(read(text.encode()).without_ticker) == is_cash


def test_a_currency_that_nothing_calls_cash_counts_and_is_said() -> None:
    disclosure = read(b"ticker,weight (%)\nAAA,99\nUSD,1\n")
    assert "USD" in weights(disclosure)
    assert any("(USD) may be a currency" in note for note in disclosure.notes)


def test_headings_between_positions_are_passed_over() -> None:
    text = "ticker,name,weight (%)\nEquity,,\nAAA,ALPHA,60\n\nCash and other,,\n-,USD CASH,40\n"
    assert [line.name for line in read(text.encode()).lines] == ["ALPHA", "USD CASH"]


def test_no_float_ever_touches_a_weight() -> None:
    digits = "12.345678901234567890123456789"
    assert weights(read(f"ticker,name,weight (%)\nAAA,ALPHA,{digits}\n".encode())) == {"AAA": Decimal(digits)}


@pytest.mark.parametrize(
    ("written", "as_of"),
    [
        ("2021-09-08", "2021-09-08"),
        ("2021/09/08", "2021-09-08"),
        ("20210908", "2021-09-08"),
        ("2021-09-08T00:00:00", "2021-09-08"),
        ("2021-09-08 16:00:00+00:00", "2021-09-08"),
        ("9/18/2021", "2021-09-18"),
        ("18/09/2021", "2021-09-18"),
        ("08.09.2021", "2021-09-08"),
        ("09/09/2021", "2021-09-09"),
        ("08-Sep-2021", "2021-09-08"),
        ("8 September 2021", "2021-09-08"),
        ('"Sep 08, 2021"', "2021-09-08"),
        ('"September 8th, 2021"', "2021-09-08"),
        ("09/08/2021", "09/08/2021"),
        ("9/8/21", "9/8/21"),
    ],
)
def test_days(written: str, as_of: str) -> None:
    disclosure = read(f"date,ticker,name,weight (%)\n{written},AAA,ALPHA,100\n".encode())
    assert disclosure.as_of == as_of
    assert any("more than one way" in note for note in disclosure.notes) == (as_of == written and "-" not in as_of)
